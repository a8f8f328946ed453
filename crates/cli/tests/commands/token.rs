//! `token`, and the access that tokens give; TLS.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::{
    shows,
    world::{Done, PATIENCE, World},
};

/// Repeats the command until it exits with this code.
#[track_caller]
fn until(command: &mut Command, code: i32) -> Done {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let done = Done::of(command);
        if done.code == Some(code) {
            return done;
        }
        assert!(Instant::now() < deadline, "{:?}: {}{}", done.code, done.out, done.err);
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn tokens_are_made_listed_and_revoked_while_the_control_plane_runs() {
    let world = World::new();
    shows!("token-list-none", world.ok(&["token", "list", "--state-dir", "state"]));
    let create = |role: &str| {
        let made =
            world.json(&["token", "create", "--owner", "zorro", "--role", role, "--state-dir", "state"]);
        (made["token"].as_str().unwrap().to_owned(), made["id"].as_str().unwrap().to_owned())
    };
    let (admin, _) = create("admin");
    let (read, id) = create("read");
    // From now on a token is required.
    shows!("token-missing.error", until(&mut world.command(&["status"]), 4).err);
    let with = |token: &str, arguments: &[&str]| {
        let mut command = world.command(arguments);
        command.env("RAY_MULTICLUSTER_TOKEN", token);
        command
    };
    assert_eq!(Done::of(&mut with(&admin, &["status"])).code, Some(0));
    let refused = until(&mut with(&read, &["clusters", "cordon", "mac"]), 4);
    shows!("token-role.error", refused.err);
    let listed = world.ok(&["token", "list", "--state-dir", "state"]);
    assert!(!listed.contains(&admin[4..]), "{listed}");
    let listed = listed.lines().map(|line| line.split_whitespace().skip(1).collect::<Vec<_>>().join(" "));
    shows!("token-list", listed.collect::<Vec<_>>().join("\n"));

    assert_eq!(world.ok(&["token", "revoke", &id, "--state-dir", "state"]), format!("token {id} revoked\n"));
    until(&mut with(&read, &["status"]), 4);
    shows!("token-revoke.error", world.fails(3, &["token", "revoke", "nobody", "--state-dir", "state"]));
}

#[test]
fn a_certificate_is_used_and_a_renewed_one_without_a_restart() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("tls-{}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    fs::write(
        dir.join("cluster.yaml"),
        "clusters: [{name: a, head_address: '127.0.0.1:1', dashboard: 'http://127.0.0.1:1'}]",
    )
    .unwrap();
    certify(&dir, "first");
    let plane = Tls::start(&dir);
    let ask = |authority: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ray-multicluster"));
        command.args(["status", "--address", &plane.address]);
        command.env("RAY_MULTICLUSTER_CA_FILE", dir.join(format!("{authority}.pem")));
        command
    };
    until(&mut ask("first"), 0);
    certify(&dir, "second");
    until(&mut ask("second"), 0);
    assert_eq!(Done::of(&mut ask("first")).code, Some(5), "it is not trusted any more");
    let plain = Done::of(Command::new(env!("CARGO_BIN_EXE_ray-multicluster")).args([
        "status",
        "--address",
        &plane.address.replace("https", "http"),
    ]));
    assert_eq!(plain.code, Some(5), "{}", plain.err);
    drop(plane);
    fs::remove_dir_all(dir).unwrap();
}

/// A certificate of this name, at the place where the control plane reads it.
fn certify(dir: &Path, name: &str) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    fs::write(dir.join(format!("{name}.pem")), made.cert.pem()).unwrap();
    fs::write(dir.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    fs::write(dir.join("cert.pem"), made.cert.pem()).unwrap();
}

struct Tls {
    process: Child,
    address: String,
}

impl Tls {
    fn start(dir: &Path) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_ray-multicluster"))
            .args(["serve", "--listen", "127.0.0.1:0", "--config", "cluster.yaml", "--state-dir", "state"])
            .args(["--tls-cert", "cert.pem", "--tls-key", "key.pem"])
            .current_dir(dir)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        let address = ready.split_whitespace().find(|word| word.starts_with("https://"));
        Self { process, address: address.unwrap_or_else(|| panic!("not ready: {ready:?}")).to_owned() }
    }
}

impl Drop for Tls {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
