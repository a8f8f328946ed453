//! The process: how it reports its address, and when it exits.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

const CONFIG: &str = "
clusters:
  - {name: mac, head_address: '127.0.0.1:1', dashboard: 'http://127.0.0.1:1'}
";
/// The time limit for events that must happen; much longer than they take.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn it_says_where_it_is_while_it_serves() {
    let dir = Dir::new();
    let plane = Plane::start(&dir, &[]);
    let notice: Value = serde_json::from_slice(&fs::read(dir.notice()).unwrap()).unwrap();
    assert_eq!(
        notice,
        json!({
            "address": format!("http://{}", plane.address),
            "pid": plane.process.id(),
            "version": env!("CARGO_PKG_VERSION"),
            "config": dir.config(),
        })
    );
    assert_eq!(fs::metadata(dir.notice()).unwrap().permissions().mode() & 0o777, 0o600);
    // A request to the reported address.
    assert_eq!(plane.connect().ask("GET", "/v1/version", "").0, 200);

    let second = dir.serve(&[]).output().unwrap();
    assert_eq!(second.status.code(), Some(1));
    let told = String::from_utf8(second.stderr).unwrap();
    let expected = format!("in use by the control plane at http://{}, process", plane.address);
    assert!(told.contains(&expected), "{told}");
    assert!(dir.notice().exists(), "it is not the second's to take down");

    assert!(plane.terminate().success());
    assert!(!dir.notice().exists());
}

#[test]
fn a_file_that_is_wrong_ends_it_as_it_ends_every_command() {
    let dir = Dir::new();
    fs::write(dir.config(), "clusters: [{name: mac}]").unwrap();
    let ended = dir.serve(&[]).output().unwrap();
    assert_eq!(ended.status.code(), Some(2));
    let told = String::from_utf8(ended.stderr).unwrap();
    assert!(told.contains("cluster mac has no dashboard"), "{told}");
}

#[test]
fn a_notice_that_was_left_behind_is_replaced_and_one_of_somebody_else_is_left() {
    let dir = Dir::new();
    let mut killed = Plane::start(&dir, &[]);
    killed.process.kill().unwrap();
    killed.process.wait().unwrap();
    assert!(dir.notice().exists());
    let plane = Plane::start(&dir, &[]);
    let notice: Value = serde_json::from_slice(&fs::read(dir.notice()).unwrap()).unwrap();
    assert_eq!(notice["pid"], plane.process.id());
    fs::write(dir.notice(), "{}").unwrap();
    assert!(plane.terminate().success());
    assert_eq!(fs::read_to_string(dir.notice()).unwrap(), "{}");
}

#[test]
fn it_ends_by_itself_when_nobody_needs_it_and_not_before() {
    let dir = Dir::new();
    let mut plane = Plane::start(&dir, &["--exit-when-idle", "1500ms"]);
    let lives = Duration::from_millis(3000);

    let mut follower = plane.connect();
    follower.send("GET", "/v1/events", "");
    plane.assert_lives(lives);

    // A job that no cluster accepts stays queued.
    let job = json!({"id": "waits", "entrypoint": "x"}).to_string();
    let mut client = plane.connect();
    assert_eq!(client.ask("POST", "/v1/jobs", &job).0, 201);
    drop(follower);
    plane.assert_lives(lives);

    // An open connection without requests counts as idle.
    assert_eq!(client.ask("POST", "/v1/jobs/waits/stop", "").0, 202);
    let (status, told) = plane.ends();
    assert!(status.success());
    assert!(told.contains("shutting down: idle for "), "{told}");
    assert!(!dir.notice().exists());
}

/// A job arrives just when the control plane decides to exit. Either the job is accepted, and the
/// control plane stays to run it; or it is refused.
#[test]
fn a_job_that_races_with_the_end_is_run_or_refused() {
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..12_u32 {
        let dir = Dir::new();
        let mut plane = Plane::start(&dir, &["--exit-when-idle", "80ms"]);
        // On a slow machine it may have exited before the first request.
        let Some(mut client) = plane.try_connect() else { continue };
        if client.try_ask("GET", "/v1/version", "").is_none_or(|(status, _)| status != 200) {
            continue;
        }
        std::thread::sleep(Duration::from_millis(76 + u64::from(round) * 3));
        let job = json!({"id": "late", "entrypoint": "x"}).to_string();
        let answer = client.try_ask("POST", "/v1/jobs", &job);
        match answer {
            Some((201, _)) => {
                plane.assert_lives(Duration::from_millis(400));
                assert_eq!(client.ask("GET", "/v1/jobs/late", "").0, 200);
                assert!(plane.terminate().success());
                accepted += 1;
            }
            other => {
                assert!(other.is_none_or(|(status, body)| status == 503 && body["code"] == "stopping"));
                assert!(plane.ends().0.success());
                let again = Plane::start(&dir, &[]);
                assert_eq!(again.connect().ask("GET", "/v1/jobs/late", "").0, 404);
                refused += 1;
            }
        }
    }
    // The split depends on the machine.
    println!("{accepted} accepted, {refused} refused");
}

/// The process is paused, like a sleeping laptop. Callers that wait could not be heard.
#[test]
fn what_waits_for_a_place_outlasts_a_sleep() {
    let dir = Dir::new();
    fs::write(dir.config(), format!("{CONFIG}scheduler: {{lease_ttl: 2s}}\n")).unwrap();
    let plane = Plane::start(&dir, &[]);
    let mut client = plane.connect();
    let task = json!({"id": "task-1", "kind": "task"}).to_string();
    assert_eq!(client.ask("POST", "/v1/placements", &task).1["status"], "queued");

    let pid = rustix::process::Pid::from_child(&plane.process);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    std::thread::sleep(Duration::from_secs(4));
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    let beat = json!({"leases": [{"id": "task-1"}]}).to_string();
    let mut heard = || client.ask("POST", "/v1/placements/heartbeat", &beat).1["leases"][0]["status"].clone();
    assert_eq!(heard(), "queued");

    // Silence counts again.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(heard(), "gone");
}

#[test]
fn it_says_once_how_secrets_are_stored_and_a_key_changes_that() {
    let dir = Dir::new();
    let keys = dir.0.join("keys");
    let key = |verb: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ray-multicluster"));
        assert!(command.args(["key", verb]).arg(&keys).output().unwrap().status.success());
    };
    let log_of = |more: &[&str]| {
        let mut plane = Plane::start(&dir, more);
        let pid = plane.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        plane.ends().1
    };
    assert_eq!(log_of(&[]).matches("secrets are stored in plain text").count(), 1);
    key("create");
    let with_key = ["--key-file", keys.to_str().unwrap()];
    let log = log_of(&with_key);
    assert!(log.contains("now encrypted with this key") && !log.contains("plain text"), "{log}");
    let log = log_of(&with_key);
    assert!(!log.contains("key"), "nothing to say: {log}");
    key("rotate");
    let log = log_of(&with_key);
    assert!(log.contains("now encrypted") && log.contains("nothing that is stored needs this key"), "{log}");
    let refused = dir.serve(&[]).output().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let told = String::from_utf8(refused.stderr).unwrap();
    assert!(
        told.contains("sealed with key") && told.contains("hint:") && told.contains("--key-file"),
        "{told}"
    );
}

/// A directory of a test's own.
struct Dir(PathBuf);

impl Dir {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("serve-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).unwrap();
        let dir = Self(path);
        fs::write(dir.config(), CONFIG).unwrap();
        dir
    }

    fn config(&self) -> PathBuf {
        self.0.join("cluster.yaml")
    }

    fn notice(&self) -> PathBuf {
        self.0.join("state/plane.json")
    }

    fn serve(&self, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ray-multicluster"));
        command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(self.config());
        command.arg("--state-dir").arg(self.0.join("state")).args(more);
        command
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

/// A control plane that runs.
struct Plane {
    process: Child,
    address: String,
}

impl Plane {
    fn start(dir: &Dir, more: &[&str]) -> Self {
        let mut process = dir.serve(more).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        let address = ready.split("http://").nth(1).and_then(|rest| rest.split(' ').next());
        let address = address.unwrap_or_else(|| panic!("not ready: {ready:?}")).to_owned();
        Self { process, address }
    }

    fn connect(&self) -> Client {
        self.try_connect().unwrap()
    }

    fn try_connect(&self) -> Option<Client> {
        let stream = TcpStream::connect(&self.address).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Some(Client { host: self.address.clone(), stream: BufReader::new(stream) })
    }

    #[track_caller]
    fn assert_lives(&mut self, for_so_long: Duration) {
        let until = Instant::now() + for_so_long;
        while Instant::now() < until {
            assert!(self.process.try_wait().unwrap().is_none(), "it has ended");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Its exit status, and its output.
    fn ends(&mut self) -> (ExitStatus, String) {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        };
        let mut told = String::new();
        self.process.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        (status, told)
    }

    fn terminate(mut self) -> ExitStatus {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.ends().0
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// One kept connection.
struct Client {
    host: String,
    stream: BufReader<TcpStream>,
}

impl Client {
    fn send(&mut self, method: &str, path: &str, body: &str) {
        self.try_send(method, path, body).unwrap();
    }

    fn ask(&mut self, method: &str, path: &str, body: &str) -> (u16, Value) {
        self.try_ask(method, path, body).expect("an answer")
    }

    fn try_send(&mut self, method: &str, path: &str, body: &str) -> std::io::Result<()> {
        let (host, length) = (&self.host, body.len());
        let head = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {length}\r\n\r\n");
        self.stream.get_mut().write_all((head + body).as_bytes())
    }

    /// `None` if the connection was closed without an answer.
    fn try_ask(&mut self, method: &str, path: &str, body: &str) -> Option<(u16, Value)> {
        self.try_send(method, path, body).ok()?;
        let (mut status, mut length) = (0, 0);
        for number in 0.. {
            let mut line = String::new();
            if self.stream.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end().to_ascii_lowercase();
            if number == 0 {
                status = line.split(' ').nth(1)?.parse().ok()?;
            } else if let Some(said) = line.strip_prefix("content-length:") {
                length = said.trim().parse().ok()?;
            } else if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).ok()?;
        Some((status, serde_json::from_slice(&body).unwrap_or_default()))
    }
}
