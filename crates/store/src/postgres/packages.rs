//! Packages in the database, in pieces, so that whoever leads has them.
//!
//! An upload is spooled to a local file, then its pieces are stored in several small transactions. Only the
//! last one names the content: a package is visible when it is complete. Pieces of an upload that never
//! ended are removed by a later one.

use std::{
    fs::File,
    io::Read,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_util::{FutureExt, future::BoxFuture};
use tokio_postgres::{Client, Row, types::Type};

use super::{
    Database,
    cache::Cache,
    int,
    pool::{Param, Pool, rows},
    uint,
};
use crate::{
    Options, Package, Packages, Room, StoreError, Upload,
    packages::{self, Grace, UnderWay},
    spool::Spool,
    sqlite::disk::at,
};

/// The size of a piece.
const PIECE: usize = 1 << 20;
/// One change of the catalog at a time: room is made for each.
const LOCK: &str = "SELECT pg_catalog.pg_advisory_xact_lock(685842258784)";

/// The packages of one database.
#[derive(Debug, Clone)]
pub(super) struct PgPackages(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    pool: Pool,
    cache: Cache,
    options: Arc<Options>,
    grace: Grace,
    under_way: UnderWay,
    uploads: AtomicU64,
}

impl PgPackages {
    pub(super) fn open(pool: Pool, options: Arc<Options>) -> Result<Self, StoreError> {
        let cache = Cache::open(&options)?;
        let grace = Grace::of(&options);
        let (under_way, uploads) = (UnderWay::default(), AtomicU64::new(0));
        Ok(Self(Arc::new(Shared { pool, cache, options, grace, under_way, uploads })))
    }
}

/// The packages, and the database, which must not be closed before.
pub(super) struct KeptPackages {
    pub(super) packages: PgPackages,
    pub(super) _database: Database,
}

impl Packages for KeptPackages {
    fn begin(&self, room: &Room) -> Result<Box<dyn Upload>, StoreError> {
        let shared = self.packages.0.clone();
        let number = shared.uploads.fetch_add(1, Ordering::Relaxed);
        let begun = shared.under_way.begin(room, &shared.options);
        let spool = Spool::create(shared.cache.upload(number), begun, shared.options.max_package)?;
        Ok(Box::new(PgUpload { shared, spool, room: room.clone(), _database: self._database.clone() }))
    }

    fn find(&self, name: &str) -> Result<Option<Package>, StoreError> {
        packages::check_name(name)?;
        let sql = "SELECT c.sha256, c.size, c.used_at FROM multicluster.package_names n
                   JOIN multicluster.contents c USING (sha256) WHERE n.name = $1";
        let found = self.packages.0.used(sql, name)?;
        Ok(found.map(|(sha256, size)| Package { name: name.to_owned(), sha256, size }))
    }

    fn content(&self, sha256: &str) -> Result<Option<PathBuf>, StoreError> {
        let shared = &self.packages.0;
        let sql = "SELECT sha256, size, used_at FROM multicluster.contents WHERE sha256 = $1";
        if packages::from_hex(sha256).is_none() {
            return Ok(None);
        }
        let Some((_, size)) = shared.used(sql, sha256)? else { return Ok(None) };
        shared.cache.get(sha256, size, |write| shared.fetch(sha256, write))
    }
}

impl Shared {
    /// One content, whose use is recorded.
    fn used(&self, sql: &'static str, key: &str) -> Result<Option<(String, u64)>, StoreError> {
        let (pool, grace, key) = (self.pool.clone(), self.grace, key.to_owned());
        self.pool.block(async move {
            let found = pool
                .view(|client: &Client| {
                    let key = key.clone();
                    async move { rows(client, sql, &[(&key, Type::TEXT)]).await }.boxed()
                })
                .await?;
            let Some(row) = found.first() else { return Ok(None) };
            let sha256: String = row.try_get(0)?;
            if grace.is_new_use(uint(row.try_get(2)?), packages::now()) {
                pool.change(|client: &Client| touch(client, sha256.clone()).boxed()).await?;
            }
            let size = uint(row.try_get(1)?);
            Ok(Some((sha256, size)))
        })
    }

    /// Passes on the content piece by piece. False: there is none any more.
    fn fetch(
        &self,
        sha256: &str,
        write: &mut dyn FnMut(&[u8]) -> Result<(), StoreError>,
    ) -> Result<bool, StoreError> {
        let sql =
            "SELECT p.body FROM multicluster.package_pieces p JOIN multicluster.contents c USING (upload)
                   WHERE c.sha256 = $1 AND p.piece = $2";
        for piece in 0i64.. {
            let (pool, sha256) = (self.pool.clone(), sha256.to_owned());
            let found = self.pool.block(async move {
                pool.view(|client: &Client| {
                    let sha256 = sha256.clone();
                    async move { rows(client, sql, &[(&sha256, Type::TEXT), (&piece, Type::INT8)]).await }
                        .boxed()
                })
                .await
            })?;
            let Some(row) = found.first() else { return Ok(false) };
            let body: &[u8] = row.try_get(0)?;
            write(body)?;
            // An empty content has one empty piece; every other one ends with a short one.
            if body.len() < PIECE {
                break;
            }
        }
        Ok(true)
    }

    fn run<T: Send + 'static>(
        &self,
        work: impl for<'c> Fn(&'c Client) -> BoxFuture<'c, Result<T, StoreError>> + Send + Sync + 'static,
    ) -> Result<T, StoreError> {
        let pool = self.pool.clone();
        self.pool.block(async move { pool.change(work).await })
    }
}

async fn touch(client: &Client, sha256: String) -> Result<bool, StoreError> {
    let sql = "UPDATE multicluster.contents SET used_at = $2 WHERE sha256 = $1";
    let now = int(packages::now());
    Ok(client.execute_typed(sql, &[(&sha256, Type::TEXT), (&now, Type::INT8)]).await? > 0)
}

/// One upload, in a local file until it is complete.
struct PgUpload {
    shared: Arc<Shared>,
    spool: Spool,
    room: Room,
    _database: Database,
}

impl Upload for PgUpload {
    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.spool.write(bytes)
    }

    fn finish(self: Box<Self>, name: &str) -> Result<Package, StoreError> {
        let package = Arc::new(self.spool.finish(name, false)?);
        let shared = &self.shared;
        let known = {
            let package = package.clone();
            shared.run(move |client| name_known(client, package.clone()).boxed())?
        };
        if known {
            return Ok((*package).clone());
        }
        let upload = self.store_pieces()?;
        let added = Added {
            package: package.clone(),
            upload,
            room: self.room.clone(),
            max: self.room.all.unwrap_or(shared.options.max_packages),
            grace: shared.grace,
        };
        let added = Arc::new(added);
        let done = shared.run(move |client| add(client, added.clone()).boxed()).and_then(|done| done);
        if done.is_err() {
            // Otherwise a later upload removes them.
            let _ = shared.run(move |client| forget_pieces(client, vec![upload]).boxed());
        }
        done?;
        shared.cache.adopt(&package.sha256, self.spool.path(), package.size);
        Ok((*package).clone())
    }
}

impl PgUpload {
    /// Stores the pieces, not yet visible as a package.
    fn store_pieces(&self) -> Result<i64, StoreError> {
        let path = self.spool.path().to_owned();
        let mut file = File::open(&path).map_err(at(&path))?;
        let upload = self.shared.run(|client| begin(client).boxed())?;
        let mut piece = 0i64;
        loop {
            let mut body = Vec::with_capacity(PIECE);
            file.by_ref().take(PIECE as u64).read_to_end(&mut body).map_err(at(&path))?;
            let is_last = body.len() < PIECE;
            let body = Arc::new(body);
            self.shared.run(move |client| add_piece(client, upload, piece, body.clone()).boxed())?;
            piece += 1;
            if is_last {
                return Ok(upload);
            }
        }
    }
}

/// Points the name to a content that is stored already. False: it is not.
async fn name_known(client: &Client, package: Arc<Package>) -> Result<bool, StoreError> {
    if !touch(client, package.sha256.clone()).await? {
        return Ok(false);
    }
    put_name(client, &package).await?;
    Ok(true)
}

async fn put_name(client: &Client, package: &Package) -> Result<(), StoreError> {
    let sql = "INSERT INTO multicluster.package_names (name, sha256) VALUES ($1, $2)
               ON CONFLICT (name) DO UPDATE SET sha256 = excluded.sha256";
    client.execute_typed(sql, &[(&package.name, Type::TEXT), (&package.sha256, Type::TEXT)]).await?;
    Ok(())
}

/// A number for the pieces of an upload. Removes those of uploads that ended long ago without a package.
async fn begin(client: &Client) -> Result<i64, StoreError> {
    let stale = "
        DELETE FROM multicluster.package_uploads u WHERE u.begun_at < pg_catalog.clock_timestamp() - interval '1 hour'
            AND NOT EXISTS (SELECT FROM multicluster.contents c WHERE c.upload = u.upload) RETURNING u.upload";
    let stale: Vec<i64> = numbers(&rows(client, stale, &[]).await?)?;
    if !stale.is_empty() {
        forget_pieces(client, stale).await?;
    }
    let sql = "INSERT INTO multicluster.package_uploads DEFAULT VALUES RETURNING upload";
    Ok(client.query_typed_one(sql, &[]).await?.try_get(0)?)
}

async fn add_piece(client: &Client, upload: i64, piece: i64, body: Arc<Vec<u8>>) -> Result<(), StoreError> {
    let sql = "INSERT INTO multicluster.package_pieces (upload, piece, body) VALUES ($1, $2, $3)
               ON CONFLICT (upload, piece) DO NOTHING";
    let params: [Param<'_>; 3] = [(&upload, Type::INT8), (&piece, Type::INT8), (&*body, Type::BYTEA)];
    client.execute_typed(sql, &params).await?;
    Ok(())
}

async fn forget_pieces(client: &Client, uploads: Vec<i64>) -> Result<(), StoreError> {
    for sql in [
        "DELETE FROM multicluster.package_pieces WHERE upload = ANY($1)",
        "DELETE FROM multicluster.package_uploads WHERE upload = ANY($1)",
    ] {
        client.execute_typed(sql, &[(&uploads, Type::INT8_ARRAY)]).await?;
    }
    Ok(())
}

fn numbers(rows: &[Row]) -> Result<Vec<i64>, StoreError> {
    rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

/// A complete upload that becomes a package.
struct Added {
    package: Arc<Package>,
    upload: i64,
    room: Room,
    max: u64,
    grace: Grace,
}

/// Makes room and names the content. The inner error leaves the transaction as it is: nothing was changed.
async fn add(client: &Client, added: Arc<Added>) -> Result<Result<(), StoreError>, StoreError> {
    let package = &added.package;
    client.batch_execute(LOCK).await?;
    if touch(client, package.sha256.clone()).await? {
        // Somebody else uploaded the same meanwhile, or this is the second attempt.
        let sql = "SELECT upload FROM multicluster.contents WHERE sha256 = $1";
        let theirs: i64 = client.query_typed_one(sql, &[(&package.sha256, Type::TEXT)]).await?.try_get(0)?;
        if theirs != added.upload {
            forget_pieces(client, vec![added.upload]).await?;
        }
        put_name(client, package).await?;
        return Ok(Ok(()));
    }
    if let Some((prefix, max)) = &added.room.own {
        let (prefix, max) = (prefix.clone(), *max);
        let full = |used| StoreError::ShareFull { used, max };
        if let Err(error) = make_room(client, &added, Some(prefix), max, full).await? {
            return Ok(Err(error));
        }
    }
    let max = added.max;
    let full = |used| StoreError::Full { used, max };
    if let Err(error) = make_room(client, &added, None, max, full).await? {
        return Ok(Err(error));
    }
    let sql = "INSERT INTO multicluster.contents (sha256, size, used_at, upload) VALUES ($1, $2, $3, $4)";
    let (size, now) = (int(package.size), int(packages::now()));
    let params: [Param<'_>; 4] =
        [(&package.sha256, Type::TEXT), (&size, Type::INT8), (&now, Type::INT8), (&added.upload, Type::INT8)];
    client.execute_typed(sql, &params).await?;
    put_name(client, package).await?;
    Ok(Ok(()))
}

/// Removes packages that no job needs, the longest unused first, until this one has room: of the owner with
/// this prefix, or of all.
async fn make_room(
    client: &Client,
    added: &Added,
    prefix: Option<String>,
    max: u64,
    full: impl Fn(u64) -> StoreError,
) -> Result<Result<(), StoreError>, StoreError> {
    let sql = "
        SELECT c.upload, c.size, c.used_at,
            EXISTS (SELECT FROM multicluster.job_packages j WHERE j.sha256 = c.sha256)
        FROM multicluster.contents c
        WHERE $1::text IS NULL OR EXISTS (
            SELECT FROM multicluster.package_names n WHERE n.sha256 = c.sha256 AND starts_with(n.name, $1))
        ORDER BY c.used_at";
    let (mut used, mut idle) = (0, Vec::new());
    let limit = added.grace.may_go_if_used_by(packages::now());
    for row in rows(client, sql, &[(&prefix, Type::TEXT)]).await? {
        let size = uint(row.try_get(1)?);
        used += size;
        if !row.try_get::<_, bool>(3)? && uint(row.try_get(2)?) <= limit {
            idle.push((size, row.try_get::<_, i64>(0)?));
        }
    }
    let missing = (used + added.package.size).saturating_sub(max);
    let Some(chosen) = packages::choose(idle, missing) else { return Ok(Err(full(used))) };
    if !chosen.is_empty() {
        let sql = "DELETE FROM multicluster.contents WHERE upload = ANY($1)";
        client.execute_typed(sql, &[(&chosen, Type::INT8_ARRAY)]).await?;
        forget_pieces(client, chosen).await?;
    }
    Ok(Ok(()))
}
