//! `debug-dump`: what is in the archive, and that no secret is.

use std::{
    collections::BTreeMap,
    fs,
    io::Read,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::Path,
    time::{Duration, Instant},
};

use multicluster_testkit::{Endpoint, Fault};
use multicluster_types::hex;
use serde_json::Value;
use sha2::{Digest, Sha256};
use zip::ZipArchive;

use crate::{
    shows,
    world::{Done, PATIENCE, World},
};

/// The members of an archive.
fn members(file: &Path) -> BTreeMap<String, String> {
    let mut zip = ZipArchive::new(fs::File::open(file).unwrap()).unwrap();
    let names: Vec<_> = zip.file_names().map(|name| name.unwrap().into_owned()).collect();
    let read = |name: String| {
        let mut text = String::new();
        zip.by_name(&name).unwrap().read_to_string(&mut text).unwrap();
        (name, text)
    };
    names.into_iter().map(read).collect()
}

#[test]
fn everything_about_the_pool_is_in_one_archive() {
    let world = World::new().with_a_job_that_ran().with_a_job_that_waits();
    assert_eq!(world.ok(&["debug-dump", "a.zip"]), "a.zip\n");
    let file = world.dir.join("a.zip");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let found = members(&file);
    let document = |name: &str| -> Value { serde_json::from_str(&found[name]).unwrap() };
    assert_eq!(document("versions.json")["control_plane"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(document("versions.json")["clusters"][0]["ray_version"], "2.60.0");
    assert_eq!(document("cluster.json")["content"]["clusters"][0]["name"], "centos");
    assert_eq!(document("clusters.json")[1]["name"], "mac");
    assert_eq!(document("queue.json")["waiting"], 1);
    assert!(document("settings.json")["items"].as_array().unwrap().len() > 10);
    assert!(found["jobs.jsonl"].contains("\"ran\"") && found["jobs.jsonl"].contains("\"waits\""));
    assert!(found["why.jsonl"].contains("\"waits\"") && !found["why.jsonl"].contains("\"ran\""));
    assert!(found["decisions.jsonl"].contains("\"ran\""));
    assert!(found["events.jsonl"].contains("\"succeeded\""));
    assert!(found["metrics.txt"].contains("multicluster_jobs"));
    assert!(found["serve.log"].contains("cluster=\"lab\""), "{}", found["serve.log"]);
    assert!(!found["README.txt"].contains("Missing"), "{}", found["README.txt"]);
    for name in found.keys().filter(|name| *name != "README.txt") {
        assert!(found["README.txt"].contains(name), "{name}");
    }
    shows!("debug-dump.error", world.fails(2, &["debug-dump", "a.zip"]));
    let told = world.json(&["debug-dump", "b.zip"]);
    assert_eq!((&told["file"], &told["missing"]), (&"b.zip".into(), &Value::Array(Vec::new())));
}

#[test]
fn without_a_control_plane_it_has_what_this_machine_knows() {
    let world = World::new();
    // The log of the control plane that the SDK started for this file, and that has ended.
    let config = fs::canonicalize(&world.dir).unwrap().join("cluster.yaml");
    let folder = hex(&Sha256::digest(config.as_os_str().as_bytes())[..8]);
    let folder = world.dir.join("planes").join(folder);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("plane.log"), "x\nthe end, Authorization: Basic hunter2\n").unwrap();
    let mut dump = world.program(&["debug-dump", "a.zip", "--address", "127.0.0.1:1"]);
    let done = Done::of(dump.env("RAY_MULTICLUSTER_PLANES_DIR", world.dir.join("planes")));
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(done.err.contains("missing: everything from the control plane: cannot reach"), "{}", done.err);
    let found = members(&world.dir.join("a.zip"));
    let names: Vec<_> = found.keys().map(String::as_str).collect();
    assert_eq!(names, ["README.txt", "background.log", "cluster.json", "environment.json", "versions.json"]);
    assert_eq!(found["background.log"], "x\nthe end, Authorization: <redacted>\n");
    assert!(found["README.txt"].contains("everything from the control plane: cannot reach"));
    // A file that cannot be parsed may have secrets anywhere.
    fs::write(world.dir.join("cluster.yaml"), "clusters: [{token: hunter2, name: 'x\n").unwrap();
    let mut dump = world.program(&["debug-dump", "b.zip", "--address", "127.0.0.1:1"]);
    let done = Done::of(&mut dump);
    assert!(done.err.contains("cluster.json") && done.err.contains("is not valid YAML"), "{}", done.err);
    assert!(members(&world.dir.join("b.zip")).values().all(|text| !text.contains("hunter2")));
}

/// Every one of these is somewhere in the pool; none may be anywhere in the archive.
const SECRETS: [&str; 21] = [
    "hunter2-token",
    "hunter2-file",
    "hunter2-header",
    "hunter2-basic",
    "hunter2-variable",
    "hunter2-by-file",
    "hunter2-by-env",
    "hunter2-index",
    "hunter2-argument",
    "hunter2-comment",
    "hunter2-job",
    "hunter2-url",
    "hunter2-pip",
    "hunter2-flag",
    "hunter2-curl",
    "hunter2-login",
    "hunter2-metadata",
    "hunter2-said",
    "hunter2-note",
    "hunter2-discovered",
    "hunter2-beside",
];

/// A pool that has a secret wherever one can be.
fn fill(world: &mut World) {
    let write = |name: &str, text: &str| fs::write(world.dir.join(name), text).unwrap();
    write("by-file", "hunter2-by-file\n");
    write("token-file", "hunter2-file\n");
    write("basic", "Basic hunter2-basic\n");
    let config = format!(
        "clusters:
  # hunter2-comment
  - name: centos
    head_address: '127.0.0.1:1'
    dashboard: '{url}'
    token: hunter2-token
    headers: {{X-Team: hunter2-header}}
    runtime_env:
      pip: {{packages: [polars], pip_install_options: ['--index-url', 'https://ann:hunter2-index@pypi.lan/simple']}}
      env_vars:
        API_KEY: hunter2-variable
        DATABASE: {{file: by-file}}
        ENDPOINT: {{env: CLUSTER_TOKEN}}
  - {{name: by-file, head_address: '127.0.0.1:1', dashboard: '{url}', token_file: token-file}}
  - {{name: by-basic, head_address: '127.0.0.1:1', dashboard: 'http://127.0.0.1:1', headers: {{authorization: {{file: basic}}}}}}
  - {{name: by-command, head_address: '127.0.0.1:1', dashboard: 'http://127.0.0.1:1', token_command: [echo, hunter2-argument]}}
scheduler: {{submission_interval: 0s, poll_interval: 200ms, unhealthy_after: 1, dashboard_slow: 0s}}
cluster_files: [clusters.d/*.yaml]
",
        url = world.centos.url()
    );
    fs::create_dir(world.dir.join("clusters.d")).unwrap();
    write("clusters.d/beside", "hunter2-beside\n");
    let cluster = |name: &str, more: &str| {
        format!(
            "clusters: [{{name: {name}, head_address: '127.0.0.1:1', dashboard: 'http://127.0.0.1:1', {more}}}]"
        )
    };
    write("clusters.d/a.yaml", &cluster("found-a", "token: hunter2-discovered"));
    write("clusters.d/b.yaml", &cluster("found-b", "token_file: beside"));
    write("cluster.yaml", &config);
    world.restart_with(&[("CLUSTER_TOKEN", "hunter2-by-env"), ("RAY_MULTICLUSTER_LOG", "debug")]);
    // The cluster repeats what it was sent, in the answer to every kind of request.
    let said = "refused hunter2-token hunter2-file of {'env_vars': {'HF_TOKEN': 'hunter2-said'}}, \
                index https://ann:hunter2-said@pypi.lan, Authorization: Bearer hunter2-file";
    world.centos.fault(Endpoint::Submit, Fault::Status(400, said.to_owned()));
    world.centos.fault_next(Endpoint::Nodes, Fault::Status(500, said.to_owned()), 2);
    let runtime_env = r#"{"env_vars": {"HF_TOKEN": "hunter2-job", "DATABASE_URL": "postgres://ann:hunter2-url@db/x"},
        "pip": ["--extra-index-url https://ann:hunter2-pip@pypi.lan/simple", "polars"]}"#;
    let command = "curl -H 'X-Api-Key: hunter2-curl' -u ann:hunter2-login http://h | python train.py --token hunter2-flag";
    for (id, cluster) in [("refused", "centos"), ("waits", "by-basic")] {
        world.ok(&[
            "submit",
            "--no-wait",
            "--submission-id",
            id,
            "--require-cluster",
            cluster,
            "--runtime-env-json",
            runtime_env,
            "--metadata-json",
            r#"{"api_token": "hunter2-metadata"}"#,
            "--",
            command,
        ]);
    }
    world.ok(&["clusters", "cordon", "by-command", "--note", "password: hunter2-note"]);
    world.until(&["job", "refused"], |job| job["state"] == "failed");
    world.until(&["clusters"], |list| {
        let clusters = list["items"].as_array().unwrap();
        clusters
            .iter()
            .any(|cluster| cluster["name"] == "by-basic" && cluster["health"]["state"] == "unhealthy")
    });
}

#[test]
fn no_byte_of_the_archive_is_a_secret() {
    let mut world = World::new();
    fill(&mut world);
    let made =
        world.json(&["token", "create", "--owner", "zorro", "--role", "admin", "--state-dir", "state"]);
    let admin = made["token"].as_str().unwrap().to_owned();
    let made = world.json(&["token", "create", "--owner", "ann", "--role", "read", "--state-dir", "state"]);
    let read = made["token"].as_str().unwrap().to_owned();
    let dump = |file: &str, token: &str| {
        let mut command = world.command(&["debug-dump", file]);
        command.env("RAY_MULTICLUSTER_TOKEN", token).env("AWS_SECRET_ACCESS_KEY", "hunter2-aws");
        Done::of(&mut command)
    };
    let deadline = Instant::now() + PATIENCE;
    while Done::of(&mut world.command(&["status"])).code == Some(0) {
        assert!(Instant::now() < deadline, "tokens are not required");
        std::thread::sleep(Duration::from_millis(100));
    }
    let done = dump("a.zip", &admin);
    assert_eq!((done.code, done.err.contains("missing")), (Some(0), false), "{}", done.err);
    let file = world.dir.join("a.zip");
    let found = members(&file);
    // They would be there.
    assert!(found["jobs.jsonl"].contains("refused") && found["serve.log"].contains("dispatch"));
    assert!(found["cluster.json"].contains("token-file"));
    let packed = String::from_utf8_lossy(&fs::read(&file).unwrap()).into_owned();
    let tokens = [admin.as_str(), read.as_str(), "hunter2-aws"];
    let leaks: Vec<_> = found
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .chain([("the archive", packed.as_str())])
        .flat_map(|(name, text)| {
            let is_in = move |secret: &&&str| text.contains(**secret);
            let all = SECRETS.iter().chain(&tokens).filter(is_in);
            all.map(move |secret| format!("{secret} in {name}")).collect::<Vec<_>>()
        })
        .collect();
    assert!(leaks.is_empty(), "{leaks:#?}");
    assert!(found.values().all(|text| !text.contains("hunter2")));

    // With a smaller role the archive has less, and its README lists what is missing.
    let done = dump("b.zip", &read);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(done.err.contains("missing: serve.log: "), "{}", done.err);
    assert!(!members(&world.dir.join("b.zip")).contains_key("serve.log"));
}
