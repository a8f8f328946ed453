//! Two fake clusters that answer, one that does not, and a control plane over them.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use multicluster_testkit::{FakeOptions, FakeRay};
use serde_json::Value;
use tokio::runtime::Runtime;

/// The time limit for events that must happen; much longer than they take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct World {
    pub(crate) dir: PathBuf,
    pub(crate) centos: FakeRay,
    _mac: FakeRay,
    pub(crate) address: String,
    plane: Child,
    /// Dropped after the fakes, which run in it.
    _runtime: Runtime,
}

/// The result of a command.
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl World {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("commands-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&dir).unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let gib = f64::from(1 << 30);
        let (centos, mac) = runtime.block_on(async {
            let centos = FakeRay::start(FakeOptions::new("centos").cpus(8.0).memory(32.0 * gib)).await;
            let mac = FakeRay::start(FakeOptions::new("mac").cpus(4.0).gpus(1.0).memory(16.0 * gib)).await;
            (centos, mac)
        });
        centos.occupy(&[("CPU", 3.0), ("memory", 4.0 * gib)]);
        let config = format!(
            "clusters:
  - {{name: centos, head_address: '127.0.0.1:1', dashboard: '{}', tags: [linux, x86_64]}}
  - {{name: mac, head_address: '127.0.0.1:1', dashboard: '{}', tags: [macos], weight: 2.0, prefer: true}}
  - {{name: lab, head_address: '127.0.0.1:1', dashboard: 'http://127.0.0.1:1', submission_interval: 40s}}
scheduler: {{submission_interval: 0s, poll_interval: 200ms, unhealthy_after: 1, dashboard_slow: 0s}}
",
            centos.url(),
            mac.url()
        );
        fs::write(dir.join("cluster.yaml"), config).unwrap();
        let (plane, address) = serve(&dir, "127.0.0.1:0", &[]);
        let world = Self { dir, centos, _mac: mac, address, plane, _runtime: runtime };
        world.until(&["status"], |status| {
            let health = |nth: usize| status["clusters"][nth]["health"]["state"].clone();
            health(0) == "healthy" && health(1) == "healthy" && health(2) == "unhealthy"
        });
        world
    }

    /// The command, as it would be typed.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.program(arguments);
        command.env("RAY_MULTICLUSTER_ADDRESS", &self.address);
        command
    }

    /// The command without an address.
    pub(crate) fn program(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ray-multicluster"));
        command.args(arguments).current_dir(&self.dir).env_clear();
        command.envs([("COLUMNS", "80"), ("TZ", "UTC"), ("PATH", "/usr/bin:/bin")]).env("HOME", &self.dir);
        command.stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Done {
        Done::of(&mut self.command(arguments))
    }

    /// Succeeds, and returns the output.
    #[track_caller]
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let done = self.run(arguments);
        assert_eq!(done.code, Some(0), "{arguments:?}: {}{}", done.out, done.err);
        done.out
    }

    #[track_caller]
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[arguments, &["-o", "json"]].concat())).unwrap()
    }

    /// Exits with this code, and returns the error.
    #[track_caller]
    pub(crate) fn fails(&self, code: i32, arguments: &[&str]) -> String {
        let done = self.run(arguments);
        assert_eq!(done.code, Some(code), "{arguments:?}: {}{}", done.out, done.err);
        done.err
    }

    /// Repeats the command until the answer is as expected.
    #[track_caller]
    pub(crate) fn until(&self, arguments: &[&str], is_so: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.json(arguments);
            if is_so(&answer) {
                return answer;
            }
            assert!(Instant::now() < deadline, "{arguments:?} stays {answer:#}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// A job that has succeeded on centos, and ran for long enough to be seen.
    pub(crate) fn with_a_job_that_ran(self) -> Self {
        self.ok(&[
            "submit",
            "--submission-id",
            "ran",
            "--cluster",
            "centos",
            "--tag",
            "nightly",
            "--",
            "echo hello; sleep 1",
        ]);
        self
    }

    /// A job that waits for lab, which does not answer.
    pub(crate) fn with_a_job_that_waits(self) -> Self {
        self.ok(&[
            "submit",
            "--no-wait",
            "--submission-id",
            "waits",
            "--require-cluster",
            "lab",
            "--needs",
            "cpu=2",
            "--",
            "python x.py",
        ]);
        self
    }

    /// The control plane is killed.
    pub(crate) fn stop(&mut self) {
        self.plane.kill().unwrap();
        self.plane.wait().unwrap();
    }

    /// The control plane is killed and another one started.
    pub(crate) fn restart(&mut self) {
        self.restart_with(&[]);
    }

    /// The same, with more variables in its environment.
    pub(crate) fn restart_with(&mut self, env: &[(&str, &str)]) {
        self.stop();
        let (plane, address) = serve(&self.dir, self.address.strip_prefix("http://").unwrap(), env);
        assert_eq!(address, self.address);
        self.plane = plane;
    }
}

fn serve(dir: &Path, listen: &str, env: &[(&str, &str)]) -> (Child, String) {
    let mut plane = Command::new(env!("CARGO_BIN_EXE_ray-multicluster"))
        .args(["serve", "--listen", listen, "--config"])
        .arg(dir.join("cluster.yaml"))
        .arg("--state-dir")
        .arg(dir.join("state"))
        .envs(env.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    BufReader::new(plane.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    let address = ready.split_whitespace().find(|word| word.starts_with("http://"));
    let address = address.unwrap_or_else(|| panic!("not ready: {ready:?}")).to_owned();
    (plane, address)
}

impl Drop for World {
    fn drop(&mut self) {
        drop(self.plane.kill());
        drop(self.plane.wait());
        drop(fs::remove_dir_all(&self.dir));
    }
}

impl Done {
    pub(crate) fn of(command: &mut Command) -> Self {
        let output = command.output().unwrap();
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Compares with the snapshot of this name, without values that differ between runs.
#[macro_export]
macro_rules! shows {
    ($name:expr, $text:expr) => {
        let mut settings = insta::Settings::clone_current();
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        for (pattern, replacement) in $crate::world::CHANGING {
            settings.add_filter(pattern, *replacement);
        }
        settings.bind(|| insta::assert_snapshot!($name, $text));
    };
}

/// Values that differ between runs.
pub(crate) const CHANGING: &[(&str, &str)] = &[
    (r"127\.0\.0\.1:\d{4,5}", "127.0.0.1:[port]"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(,\d+)?", "[moment]"),
    (r"\b\d\d:\d\d:\d\d\b", "[clock]"),
    (r#""(at|since|until|\w+_at|from|to|seq|last_seq|\w+_seconds|\w+_s)":( ?)\d+(\.\d+)?"#, r#""$1":$2[n]"#),
    (r"\b(\d+\.\d|\d+)s\b", "[time]"),
    (r"\b\d+ (s\b|秒)", "[time]"),
    (r"\b\d+m\d\ds\b", "[time]"),
    (r#"/[^ "\n]*/commands-\d+-\d+"#, "[dir]"),
    (r"_ray_pkg_[0-9a-f]{32}", "_ray_pkg_[digest]"),
    // Last: gaps are as wide as the replaced values.
    (r"(\S) {2,}", "$1  "),
];
