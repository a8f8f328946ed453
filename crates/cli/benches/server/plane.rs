//! The real program as a process.

use std::{
    fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

pub(crate) struct Plane {
    child: Child,
    folder: PathBuf,
    pub(crate) address: SocketAddr,
    pub(crate) ready_line: String,
}

pub(crate) struct Usage {
    pub(crate) cpu_seconds: f64,
    pub(crate) rss_mb: f64,
}

/// A new folder on the disk of the build: `/tmp` may be in memory.
pub(crate) fn folder(name: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let unique = format!("{name}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench").join(unique);
    fs::create_dir_all(&folder).expect("target/bench is writable");
    folder
}

impl Plane {
    /// With its state in the folder.
    pub(crate) fn start(dashboards: &[String], folder: &Path) -> Self {
        Self::start_with(dashboards, folder, &[])
    }

    pub(crate) fn start_with(dashboards: &[String], folder: &Path, arguments: &[&str]) -> Self {
        let mut config = String::from("clusters:\n");
        for (n, dashboard) in dashboards.iter().enumerate() {
            let entry =
                format!("  - {{ name: c{n}, head_address: \"127.0.0.1:1\", dashboard: \"{dashboard}\" }}\n");
            config.push_str(&entry);
        }
        config.push_str("scheduler: { max_queue: 10000000, submission_interval: 0s }\n");
        fs::write(folder.join("cluster.yaml"), config).expect("a file");
        let mut child = Command::new(env!("CARGO_BIN_EXE_ray-multicluster"))
            .args(["serve", "--listen", "127.0.0.1:0", "--log", "error", "--config"])
            .arg(folder.join("cluster.yaml"))
            .arg("--state-dir")
            .arg(folder.join("state"))
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut ready_line = String::new();
        let output = child.stdout.take().expect("its output");
        BufReader::new(output).read_line(&mut ready_line).expect("a line");
        let address = ready_line.split("http://").nth(1).and_then(|rest| rest.split_whitespace().next());
        let address = address.and_then(|text| text.parse().ok()).expect("its address");
        Self { child, folder: folder.to_owned(), address, ready_line }
    }

    /// SIGTERM: it hands over. It goes on until it has ended.
    pub(crate) fn tell_to_end(&self) {
        let status = Command::new("kill").arg(self.child.id().to_string()).status();
        assert!(status.is_ok_and(|status| status.success()), "the signal was sent");
    }

    /// Its resource usage so far.
    pub(crate) fn usage(&self) -> Usage {
        let read =
            |file: &str| fs::read_to_string(format!("/proc/{}/{file}", self.child.id())).unwrap_or_default();
        let stat = read("stat");
        // After the name, which may contain anything: utime and stime are the 12th and 13th.
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
        let status = read("status");
        let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0 kB");
        let rss: f64 = rss.trim().trim_end_matches(" kB").parse().unwrap_or(0.0);
        Usage { cpu_seconds: (ticks(11) + ticks(12)) / 100.0, rss_mb: rss / 1024.0 }
    }

    /// `kill -9`; its files stay.
    pub(crate) fn kill_and_keep(self) {
        drop(self);
    }

    /// Kills it and removes its files.
    pub(crate) fn kill(self) {
        let folder = self.folder.clone();
        drop(self);
        drop(fs::remove_dir_all(folder));
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        drop(self.child.kill().and_then(|()| self.child.wait()));
    }
}
