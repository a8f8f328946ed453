//! The writer's statements. Prepared once per connection, looked up once per commit.

use multicluster_core::record::Orphan;
use rusqlite::{CachedStatement, Connection, Result, params};

/// Borrowed from the connection's cache.
pub(super) struct Statements<'c> {
    insert_job: CachedStatement<'c>,
    update_job: CachedStatement<'c>,
    insert_payload: CachedStatement<'c>,
    insert_package: CachedStatement<'c>,
    update_classes: CachedStatement<'c>,
    insert_cluster_of: CachedStatement<'c>,
    conn: &'c Connection,
}

/// Everything that belongs to one job.
const FORGET: [&str; 9] = [
    "DELETE FROM jobs WHERE job = ?1",
    "DELETE FROM payloads WHERE job = ?1",
    FORGET_PACKAGES,
    "DELETE FROM job_clusters WHERE job = ?1",
    "DELETE FROM attempts WHERE job = ?1",
    "DELETE FROM decisions WHERE job = ?1",
    "DELETE FROM logs WHERE job = ?1",
    "DELETE FROM log_pieces WHERE job = ?1",
    "DELETE FROM seen WHERE job = ?1",
];
const FORGET_PACKAGES: &str = "DELETE FROM job_packages WHERE job = ?1";

impl<'c> Statements<'c> {
    pub(super) fn new(conn: &'c Connection) -> Result<Self> {
        Ok(Self {
            insert_job: conn
                .prepare_cached("INSERT INTO jobs (job, class, id, record) VALUES (?1, ?2, ?3, ?4)")?,
            update_job: conn.prepare_cached("UPDATE jobs SET class = ?2, record = ?3 WHERE job = ?1")?,
            insert_payload: conn
                .prepare_cached("INSERT OR REPLACE INTO payloads (job, body) VALUES (?1, ?2)")?,
            insert_package: conn
                .prepare_cached("INSERT OR IGNORE INTO job_packages (job, sha256) VALUES (?1, ?2)")?,
            update_classes: conn
                .prepare_cached("UPDATE job_clusters SET class = ?2 WHERE job = ?1 AND class <> ?2")?,
            insert_cluster_of: conn.prepare_cached(
                "INSERT OR IGNORE INTO job_clusters (job, cluster, class) VALUES (?1, ?2, ?3)",
            )?,
            conn,
        })
    }

    pub(super) fn insert_job(&mut self, job: i64, class: i64, id: &str, record: &str) -> Result<()> {
        self.insert_job.execute(params![job, class, id, record]).map(drop)
    }

    pub(super) fn update_job(&mut self, job: i64, class: i64, record: &str) -> Result<()> {
        self.update_job.execute(params![job, class, record])?;
        self.update_classes.execute(params![job, class]).map(drop)
    }

    pub(super) fn payload(&mut self, job: i64, body: &str) -> Result<()> {
        self.insert_payload.execute(params![job, body]).map(drop)
    }

    pub(super) fn package(&mut self, job: i64, sha256: &[u8; 32]) -> Result<()> {
        self.insert_package.execute(params![job, sha256]).map(drop)
    }

    pub(super) fn forget_packages(&mut self, job: i64) -> Result<()> {
        self.run(FORGET_PACKAGES, params![job])
    }

    /// The job is or was on this cluster.
    pub(super) fn cluster_of(&mut self, job: i64, cluster: &str, class: i64) -> Result<()> {
        self.insert_cluster_of.execute(params![job, cluster, class]).map(drop)
    }

    /// The same, for a job whose class is not known here.
    pub(super) fn former_cluster_of(&mut self, job: i64, cluster: &str) -> Result<()> {
        self.run(
            "INSERT OR IGNORE INTO job_clusters (job, cluster, class)
             SELECT job, ?2, class FROM jobs WHERE job = ?1",
            params![job, cluster],
        )
    }

    pub(super) fn forget_job(&mut self, job: i64) -> Result<()> {
        FORGET.iter().try_for_each(|sql| self.run(sql, params![job]))
    }

    pub(super) fn attempt(&mut self, job: i64, attempt: u32, record: &str) -> Result<()> {
        self.run(
            "INSERT OR REPLACE INTO attempts (job, attempt, record) VALUES (?1, ?2, ?3)",
            params![job, attempt, record],
        )
    }

    /// Adds a decision; only the last `keep` of the job stay.
    pub(super) fn decision(&mut self, number: i64, job: i64, body: &str, keep: i64) -> Result<()> {
        self.run(
            "INSERT INTO decisions (number, job, body) VALUES (?1, ?2, ?3)",
            params![number, job, body],
        )?;
        self.run(
            "DELETE FROM decisions WHERE number IN
             (SELECT number FROM decisions WHERE job = ?1 ORDER BY number DESC LIMIT -1 OFFSET ?2)",
            params![job, keep],
        )
    }

    pub(super) fn log(&mut self, job: i64, piece: &crate::LogPiece) -> Result<()> {
        let (attempt, from) = (piece.attempt.0, super::int(piece.from));
        self.run(
            "DELETE FROM log_pieces WHERE job = ?1 AND attempt = ?2 AND start >= ?3",
            params![job, attempt, from],
        )?;
        self.run(
            "INSERT INTO log_pieces (job, attempt, start, body) VALUES (?1, ?2, ?3, ?4)",
            params![job, attempt, from, piece.body.zlib],
        )?;
        let size = super::int(piece.from + piece.body.size());
        let taken_at = piece.taken_at.map(|at| super::int(at.0));
        self.run(
            "INSERT INTO logs (job, attempt, cluster, taken_at, truncated, text, size)
             VALUES (?1, ?2, ?3, coalesce(?4, 0), ?5, '', ?6)
             ON CONFLICT (job, attempt) DO UPDATE SET cluster = ?3, taken_at = coalesce(?4, taken_at),
                 truncated = ?5, text = '', size = ?6",
            params![job, attempt, piece.cluster.as_str(), taken_at, piece.truncated, size],
        )
    }

    pub(super) fn seen(&mut self, job: i64, attempt: u32, body: &str) -> Result<()> {
        self.run(
            "INSERT OR REPLACE INTO seen (job, attempt, body) VALUES (?1, ?2, ?3)",
            params![job, attempt, body],
        )
    }

    pub(super) fn events(&mut self, last: i64, body: &[u8]) -> Result<()> {
        self.run("INSERT INTO events (last, body) VALUES (?1, ?2)", params![last, body])
    }

    pub(super) fn prune_events(&mut self, up_to: i64) -> Result<()> {
        self.run("DELETE FROM events WHERE last <= ?1", params![up_to])
    }

    /// Adds or replaces the sample of one step; only those after `forgotten` stay.
    pub(super) fn sample(&mut self, step: i64, begun: i64, body: &str, forgotten: i64) -> Result<()> {
        self.run(
            "INSERT OR REPLACE INTO samples (step, begun, body) VALUES (?1, ?2, ?3)",
            params![step, begun, body],
        )?;
        self.run("DELETE FROM samples WHERE step = ?1 AND begun <= ?2", params![step, forgotten])
    }

    pub(super) fn cluster(&mut self, name: &str, record: Option<&str>) -> Result<()> {
        match record {
            Some(record) => self
                .run("INSERT OR REPLACE INTO clusters (name, record) VALUES (?1, ?2)", params![name, record]),
            None => self.run("DELETE FROM clusters WHERE name = ?1", params![name]),
        }
    }

    pub(super) fn policy(&mut self, name: &str, spec: Option<&str>) -> Result<()> {
        match spec {
            Some(spec) => {
                self.run("INSERT OR REPLACE INTO policies (name, spec) VALUES (?1, ?2)", params![name, spec])
            }
            None => self.run("DELETE FROM policies WHERE name = ?1", params![name]),
        }
    }

    pub(super) fn usage(&mut self, owner: &str, record: Option<&str>) -> Result<()> {
        match record {
            Some(record) => self
                .run("INSERT OR REPLACE INTO usage (owner, record) VALUES (?1, ?2)", params![owner, record]),
            None => self.run("DELETE FROM usage WHERE owner = ?1", params![owner]),
        }
    }

    pub(super) fn orphan(&mut self, orphan: &Orphan, there: bool) -> Result<()> {
        let (cluster, job, attempt) = (orphan.cluster.as_str(), orphan.job.as_str(), orphan.attempt.0);
        if there {
            let life = orphan.life.map(|life| super::int(life.0));
            self.run(
                "INSERT OR REPLACE INTO orphans (cluster, job, attempt, life) VALUES (?1, ?2, ?3, ?4)",
                params![cluster, job, attempt, life],
            )
        } else {
            self.run(
                "DELETE FROM orphans WHERE cluster = ?1 AND job = ?2 AND attempt = ?3",
                params![cluster, job, attempt],
            )
        }
    }

    fn run(&self, sql: &str, params: &[&dyn rusqlite::ToSql]) -> Result<()> {
        self.conn.prepare_cached(sql)?.execute(params).map(drop)
    }
}
