//! One PostgreSQL for all tests of this program, ended with it, however it ends.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use tokio_postgres::{NoTls, SimpleQueryMessage};

/// A server, and the process that ends it when this one is gone.
pub(crate) struct Server {
    pub(crate) port: u16,
    pub(crate) dir: PathBuf,
    _guard: Child,
}

impl Server {
    /// The one of this run.
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<Server> = OnceLock::new();
        SHARED.get_or_init(|| Self::start("off"))
    }

    /// Another one, whose data survives a crash of the machine or not.
    pub(crate) fn start(fsync: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        // Short, for the path of the socket; not below a directory that only root may enter.
        let dir = PathBuf::from(format!("/tmp/mc-postgres-{}-{number}", std::process::id()));
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/postgres");
        // Its standard input ends with us, even if we are killed; what ends us does not end it.
        let guard = Command::new("sh")
            .args(["-c", "trap '' INT TERM HUP; read line; \"$0\" stop \"$1\"; rm -rf \"$1\""])
            .args([script.as_os_str(), dir.as_os_str()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let started = Command::new(&script)
            .arg("start")
            .arg(&dir)
            .arg(port.to_string())
            .env("FSYNC", fsync)
            .stdin(Stdio::null())
            .status();
        assert!(
            started.as_ref().is_ok_and(std::process::ExitStatus::success),
            "scripts/postgres could not start a server: {started:?}\n  hint: apt-get install postgresql, or \
             POSTGRES_BIN=/usr/lib/postgresql/17/bin"
        );
        Self { port, dir, _guard: guard }
    }

    /// The address of one of its databases, as the user who owns everything.
    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}?sslmode=disable", self.port)
    }

    /// A new database. Each test has its own.
    pub(crate) fn database(&self) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        self.run("postgres", &format!("CREATE DATABASE {name} TEMPLATE template0"));
        name
    }

    /// Runs SQL as the user who owns everything.
    pub(crate) fn run(&self, database: &str, sql: &str) {
        ask(&self.url(database), sql);
    }

    /// The process id of the server.
    pub(crate) fn pid(&self) -> i32 {
        let file = fs::read_to_string(self.dir.join("data/postmaster.pid")).unwrap();
        file.lines().next().unwrap().trim().parse().unwrap()
    }
}

/// Runs SQL; returns the first column of each row.
pub(crate) fn ask(url: &str, sql: &str) -> Vec<String> {
    block(async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        let rows = client.simple_query(sql).await.unwrap();
        connection.abort();
        rows.iter()
            .filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or("").to_owned()),
                _ => None,
            })
            .collect()
    })
}

/// Waits for something in a plain thread.
pub(crate) fn block<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}
