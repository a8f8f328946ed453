//! Everything that can be wrong with a database, found before anything in it is touched.

use tokio_postgres::{Client, types::Type};

use super::{
    Replica,
    fail::text,
    schema::{self, foreign},
    url::Target,
};
use crate::StoreError;

/// The oldest server that has what we use.
const OLDEST_SERVER: i32 = 130_000;

/// What an error while connecting means.
pub(super) fn connecting(target: &Target, error: &tokio_postgres::Error) -> StoreError {
    let (shown, text) = (&target.shown, text(error));
    let unusable = |hint: &str| StoreError::Unusable { what: format!("{shown}: {text}"), hint: hint.into() };
    match error.code().map(tokio_postgres::error::SqlState::code) {
        Some("28P01" | "28000") => unusable("check user and password in the URL, and pg_hba.conf"),
        Some("3D000") => unusable("make the database: CREATE DATABASE, or correct its name in the URL"),
        Some("08P01") => unusable("the pooler refuses a setting in the URL"),
        None if text.contains("TLS") || text.contains("certificate") => unusable(
            "sslmode=verify-full&sslrootcert=FILE names the certificates to trust, sslmode=disable does without TLS",
        ),
        None if text.contains("password missing") || text.contains("SCRAM") => {
            unusable("the server wants a password: postgres://user:password@host/database")
        }
        _ => StoreError::Unreachable {
            what: format!("{shown}: {text}\n  hint: is PostgreSQL running there, and is the port right?"),
        },
    }
}

/// Checks the server, our rights, and what is in the database. Changes nothing. True: the schema is there
/// in its present version.
pub(super) async fn everything(target: &Target, client: &Client, me: &Replica) -> Result<bool, StoreError> {
    pooler(target, client).await?;
    server(target, client).await?;
    let Some(found) = schema::version(client).await? else { return Ok(false) };
    let found = found.check()?;
    rights_to_tables(target, client).await?;
    plane(client, me).await?;
    Ok(found.version >= schema::known())
}

/// The plane of the database, which must be the one that is wanted, if one is wanted.
pub(super) async fn plane(client: &Client, me: &Replica) -> Result<String, StoreError> {
    let row = client.query_typed_one("SELECT plane FROM multicluster.state", &[]).await?;
    let plane: String = row.try_get(0)?;
    if let Some(wanted) = me.plane.as_ref().filter(|wanted| **wanted != plane) {
        return Err(StoreError::Unusable {
            what: format!("the database holds the control plane {plane:?}, not {wanted:?}"),
            hint: format!("give each control plane a database of its own, or say --plane {plane}"),
        });
    }
    Ok(plane)
}

/// Within a transaction, all statements must reach the same session.
async fn pooler(target: &Target, client: &Client) -> Result<(), StoreError> {
    let broken = |what: &str| StoreError::Unusable {
        what: format!("{}: {what}", target.shown),
        hint: "connect to PostgreSQL itself, or set the pooler to transactions: pool_mode = transaction"
            .into(),
    };
    client
        .batch_execute("BEGIN; SET LOCAL lock_timeout = 4711")
        .await
        .map_err(|error| broken(&format!("transactions do not work: {}", text(&error))))?;
    let mut pids = Vec::new();
    for _ in 0..3 {
        let row = client
            .query_typed_one(
                "SELECT pg_catalog.pg_backend_pid(), pg_catalog.current_setting('lock_timeout')",
                &[],
            )
            .await
            .map_err(|error| broken(&format!("transactions do not work: {}", text(&error))))?;
        pids.push((row.try_get::<_, i32>(0)?, row.try_get::<_, String>(1)?));
    }
    client.batch_execute("ROLLBACK").await?;
    if pids.iter().any(|pid| *pid != pids[0] || pid.1 != "4711ms") {
        return Err(broken("a pooler breaks transactions apart"));
    }
    Ok(())
}

async fn server(target: &Target, client: &Client) -> Result<(), StoreError> {
    let row = client.query_typed_one(FACTS, &[]).await?;
    let unusable = |what: String, hint: String| {
        Err(StoreError::Unusable { what: format!("{}: {what}", target.shown), hint })
    };
    let (user, database): (String, String) = (row.try_get("me")?, row.try_get("database")?);
    let version: i32 = row.try_get("version")?;
    if version < OLDEST_SERVER {
        let what = format!("PostgreSQL {} is too old", version / 10_000);
        return unusable(what, format!("{} or newer is needed", OLDEST_SERVER / 10_000));
    }
    if row.try_get("standby")? {
        let hint = "name the primary, or all of them: postgres://user@a:5432,b:5432/database";
        return unusable("this server is a standby and only reads".into(), hint.into());
    }
    if row.try_get("read_only")? {
        let hint =
            format!("ALTER ROLE {user} RESET default_transaction_read_only, likewise for the database");
        return unusable("transactions only read".into(), hint);
    }
    let encoding: String = row.try_get("encoding")?;
    if encoding != "UTF8" {
        let hint = "CREATE DATABASE multicluster ENCODING 'UTF8' TEMPLATE template0";
        return unusable(format!("the encoding of the database is {encoding}"), hint.into());
    }
    let [there, create, usage, create_in]: [Option<bool>; 4] = [
        row.try_get("there")?,
        row.try_get("may_create")?,
        row.try_get("may_use")?,
        row.try_get("may_create_in")?,
    ];
    let (there, known) = (there == Some(true), row.try_get::<_, bool>("known")?);
    if !there && create != Some(true) {
        return unusable(
            format!("the user {user} may not create the schema `multicluster`"),
            format!("GRANT CREATE ON DATABASE {database} TO {user}"),
        );
    }
    if there && usage != Some(true) {
        return unusable(
            format!("the user {user} may not use the schema `multicluster`"),
            format!("ALTER SCHEMA multicluster OWNER TO {user}, or connect as its owner"),
        );
    }
    if there && !known && row.try_get::<_, i64>("relations")? > 0 {
        return Err(foreign());
    }
    if there && !known && create_in != Some(true) {
        return unusable(
            format!("the user {user} may create nothing in the schema `multicluster`"),
            format!("GRANT CREATE, USAGE ON SCHEMA multicluster TO {user}"),
        );
    }
    Ok(())
}

const FACTS: &str = "
    SELECT current_user::text AS me, pg_catalog.current_database()::text AS database,
        pg_catalog.current_setting('server_version_num')::integer AS version,
        pg_catalog.pg_is_in_recovery() AS standby,
        pg_catalog.current_setting('transaction_read_only') = 'on' AS read_only,
        pg_catalog.current_setting('server_encoding') AS encoding,
        pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE') AS may_create,
        n.oid IS NOT NULL AS there,
        pg_catalog.has_schema_privilege(n.oid, 'USAGE') AS may_use,
        pg_catalog.has_schema_privilege(n.oid, 'CREATE') AS may_create_in,
        EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.relnamespace = n.oid AND c.relname = 'state') AS known,
        (SELECT count(*) FROM pg_catalog.pg_class c WHERE c.relnamespace = n.oid) AS relations
    FROM (SELECT) AS one LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = 'multicluster'";

async fn rights_to_tables(target: &Target, client: &Client) -> Result<(), StoreError> {
    let missing = "
        SELECT c.relname::text, current_user::text FROM pg_catalog.pg_class c
        WHERE c.relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = 'multicluster')
            AND c.relkind = $1::text::\"char\"
            AND NOT (pg_catalog.has_table_privilege(c.oid, 'SELECT') AND pg_catalog.has_table_privilege(c.oid, 'INSERT')
                AND pg_catalog.has_table_privilege(c.oid, 'UPDATE') AND pg_catalog.has_table_privilege(c.oid, 'DELETE'))
        ORDER BY 1 LIMIT 1";
    let Some(row) = client.query_typed_opt(missing, &[(&"r", Type::TEXT)]).await? else { return Ok(()) };
    let (table, user): (String, String) = (row.try_get(0)?, row.try_get(1)?);
    Err(StoreError::Unusable {
        what: format!("{}: the user {user} may not read and write multicluster.{table}", target.shown),
        hint: format!("GRANT ALL ON ALL TABLES IN SCHEMA multicluster TO {user}, or connect as their owner"),
    })
}
