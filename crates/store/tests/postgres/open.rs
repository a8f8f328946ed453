//! What is wrong with a database is said before anything in it is touched.

use std::{fs, path::Path, process::Command, sync::OnceLock, thread};

use multicluster_store::{
    Options, StoreError,
    postgres::{Database, Replica},
};

use crate::{
    backend::{a_replica, open},
    server::{Server, ask, block},
    support::TempDir,
};

fn wrong(url: &str) -> String {
    let error = open(url, Options::default()).unwrap_err().to_string();
    println!("{error}\n");
    assert!(error.contains("hint:"), "{error}");
    assert!(!error.contains("secret"), "{error}");
    error
}

fn is_untouched(url: &str) -> bool {
    ask(url, "SELECT nspname FROM pg_namespace WHERE nspname = 'multicluster'").is_empty()
}

/// A server with users who need a password.
fn with_users() -> &'static Server {
    static ONCE: OnceLock<()> = OnceLock::new();
    let server = Server::shared();
    ONCE.get_or_init(|| {
        server.run("postgres", "CREATE ROLE guest LOGIN PASSWORD 'secret'");
        let path = server.dir.join("data/pg_hba.conf");
        let rules = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("host all guest 127.0.0.1/32 scram-sha-256\n{rules}")).unwrap();
        server.run("postgres", "SELECT pg_reload_conf()");
        thread::sleep(std::time::Duration::from_millis(300));
    });
    server
}

fn as_guest(server: &Server, database: &str) -> String {
    format!("postgres://guest:secret@127.0.0.1:{}/{database}?sslmode=disable", server.port)
}

#[test]
fn a_server_that_is_not_there_is_unreachable() {
    let url = "postgres://me:secret@127.0.0.1:9/x";
    assert!(matches!(open(url, Options::default()), Err(StoreError::Unreachable { .. })));
    assert!(wrong(url).contains("127.0.0.1:9"));
    wrong("postgres://me:secret@does-not-exist.invalid/x");
    wrong("jobs.db");
}

#[test]
fn wrong_names_and_passwords_are_told_apart() {
    let server = with_users();
    let name = server.database();
    assert!(wrong(&as_guest(server, &name).replace(":secret", ":wrong")).contains("password"));
    assert!(wrong(&as_guest(server, &name).replace(":secret", "")).contains("password"));
    assert!(wrong(&server.url("there_is_none")).contains("there_is_none"));
    let needs_tls = server.url(&name).replace("disable", "require");
    wrong(&needs_tls);
}

#[test]
fn missing_rights_are_named_with_what_grants_them() {
    let server = with_users();
    let name = server.database();
    let (owner, guest) = (server.url(&name), as_guest(server, &name));
    assert!(wrong(&guest).contains(&format!("GRANT CREATE ON DATABASE {name} TO guest")));
    assert!(is_untouched(&owner));
    ask(&owner, "CREATE SCHEMA multicluster");
    assert!(wrong(&guest).contains("schema `multicluster`"));
    ask(&owner, "GRANT USAGE ON SCHEMA multicluster TO guest");
    assert!(wrong(&guest).contains("GRANT CREATE, USAGE ON SCHEMA multicluster"));
    ask(&owner, "DROP SCHEMA multicluster");
    open(&owner, Options::default()).unwrap();
    ask(&owner, "GRANT USAGE ON SCHEMA multicluster TO guest; GRANT SELECT ON multicluster.state TO guest");
    assert!(wrong(&guest).contains("GRANT ALL ON ALL TABLES"));
    // Enough: a schema that somebody else made.
    let other = server.database();
    ask(&server.url(&other), "CREATE SCHEMA multicluster AUTHORIZATION guest");
    open(&as_guest(server, &other), Options::default()).unwrap();
}

#[test]
fn a_database_that_only_reads_or_is_of_another_encoding_is_refused() {
    let server = with_users();
    let name = server.database();
    server.run("postgres", &format!("ALTER DATABASE {name} SET default_transaction_read_only = on"));
    wrong(&server.url(&name));
    server.run("postgres", "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
    assert!(wrong(&server.url("latin")).contains("LATIN1"));
    assert!(is_untouched(&server.url("latin")));
}

#[test]
fn the_schema_of_another_program_is_left_alone() {
    let server = Server::shared();
    for theirs in ["state (x int)", "jobs (x int)"] {
        let url = server.url(&server.database());
        ask(&url, &format!("CREATE SCHEMA multicluster; CREATE TABLE multicluster.{theirs}"));
        assert!(wrong(&url).contains("another program"));
        assert_eq!(ask(&url, "SELECT count(*) FROM pg_tables WHERE schemaname = 'multicluster'"), ["1"]);
    }
}

#[test]
fn a_newer_schema_is_used_if_it_allows_and_refused_otherwise() {
    let server = Server::shared();
    let url = server.url(&server.database());
    let plane = open(&url, Options::default()).unwrap().plane().to_owned();
    assert!(plane.starts_with("plane-") && plane.len() == 26, "{plane}");
    ask(&url, "UPDATE multicluster.state SET version = 99, oldest = 1");
    assert_eq!(open(&url, Options::default()).unwrap().plane(), plane);
    ask(&url, "UPDATE multicluster.state SET oldest = 99");
    assert!(matches!(open(&url, Options::default()), Err(StoreError::TooNew { found: 99, .. })));
}

#[test]
fn one_database_holds_one_control_plane() {
    let server = Server::shared();
    let url = server.url(&server.database());
    let named = |plane: &str| Replica { plane: Some(plane.into()), ..a_replica() };
    let open = |me| block(Database::open(&url, Options::default(), me));
    assert_eq!(open(named("blue")).unwrap().plane(), "blue");
    assert_eq!(open(a_replica()).unwrap().plane(), "blue");
    let error = open(named("green")).unwrap_err().to_string();
    assert!(error.contains("blue") && error.contains("green") && error.contains("hint:"), "{error}");
}

#[test]
fn replicas_that_start_at_the_same_moment_migrate_once() {
    let server = Server::shared();
    for _ in 0..5 {
        let url = server.url(&server.database());
        let planes: Vec<_> = thread::scope(|scope| {
            let opens: Vec<_> = (0..6)
                .map(|_| scope.spawn(|| open(&url, Options::default()).unwrap().plane().to_owned()))
                .collect();
            opens.into_iter().map(|open| open.join().unwrap()).collect()
        });
        assert!(planes.iter().all(|plane| *plane == planes[0]), "{planes:?}");
        assert_eq!(ask(&url, "SELECT count(*) FROM multicluster.state"), ["1"]);
    }
}

/// PgBouncer, if it is installed (`apt-get install pgbouncer`): transactions work, statements do not.
#[test]
fn a_pooler_of_transactions_works_and_one_of_statements_is_refused() {
    let Some(bouncer) =
        ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"].into_iter().find(|path| Path::new(path).exists())
    else {
        println!("without PgBouncer: apt-get install pgbouncer");
        return;
    };
    let server = Server::shared();
    for mode in ["transaction", "statement"] {
        let name = server.database();
        let dir = TempDir::new();
        let (mut process, url) = bounce(bouncer, &dir, server, &name, mode);
        let result = std::panic::catch_unwind(|| match mode {
            "statement" => assert!(wrong(&url).contains("pool_mode = transaction")),
            _ => through_a_pooler(&url),
        });
        process.kill().unwrap();
        process.wait().unwrap();
        result.unwrap();
    }
}

fn bounce(
    program: &str,
    dir: &TempDir,
    server: &Server,
    name: &str,
    mode: &str,
) -> (std::process::Child, String) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    fs::create_dir_all(dir.path()).unwrap();
    let config = dir.path().join("pgbouncer.ini");
    let text = format!(
        "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
         unix_socket_dir =\nauth_type = any\npool_mode = {mode}\ndefault_pool_size = 4\n\
         [users]\n",
        server.port
    );
    fs::write(&config, text.replace("* = host", &format!("{name} = user=postgres host"))).unwrap();
    let mut command = Command::new(program);
    command.arg("-q").arg(&config);
    #[cfg(unix)]
    if rustix::process::geteuid().is_root() {
        // It refuses root, as PostgreSQL does.
        let mut as_user = Command::new("runuser");
        as_user.args(["-u", "postgres", "--", program, "-q"]).arg(&config);
        command = as_user;
    }
    let process = command.spawn().unwrap();
    for _ in 0..100 {
        if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
            break;
        }
        thread::sleep(std::time::Duration::from_millis(50));
    }
    (process, format!("postgres://postgres@127.0.0.1:{port}/{name}?sslmode=disable"))
}

fn through_a_pooler(url: &str) {
    use crate::{backend::take, support::*};
    let (one, two) = (open(url, Options::default()).unwrap(), open(url, Options::default()).unwrap());
    let mut lead = take(&one).unwrap();
    lead.store.load().unwrap();
    let (reader, _) = two.readers();
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..50 {
                reader.jobs(&multicluster_store::JobFilter::default(), None, 100).unwrap();
                block(two.seat()).unwrap();
            }
        });
        for n in 0..50 {
            let name = format!("job-{n}");
            lead.store
                .commit(&[job(queued(&name, n)), payload(&name, a_payload(&name)), event(n + 1, None)])
                .unwrap();
        }
    });
    assert_eq!(reader.jobs(&multicluster_store::JobFilter::default(), None, 100).unwrap().items.len(), 50);
    let package = upload(&*one.packages(), "a.zip", &[7; 3_000_000]).unwrap();
    assert!(two.packages().content(&package.sha256).unwrap().is_some());
}
