//! `submit` and `what-if`.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use crate::{
    shows,
    world::{Done, World},
};

#[test]
fn submit_follows_a_job_to_its_end() {
    let world = World::new();
    let done =
        world.run(&["submit", "--submission-id", "a", "--cluster", "centos", "--", "echo hello; sleep 0.1"]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(
        done.out.ends_with("Running entrypoint for job a: echo hello; sleep 0.1\nhello\n"),
        "{}",
        done.out
    );
    shows!("submit", done.err);
    let document = world.ok(&[
        "submit",
        "--submission-id",
        "b",
        "--cluster",
        "centos",
        "-o",
        "json",
        "--",
        "echo",
        "it's",
    ]);
    shows!("submit.json", document);
    // The same again is the same job; other content is a conflict.
    let again = world.run(&[
        "submit",
        "--no-wait",
        "--submission-id",
        "a",
        "--cluster",
        "centos",
        "--",
        "echo hello; sleep 0.1",
    ]);
    assert_eq!((again.code, again.out.as_str()), (Some(0), "a\n"));
    assert!(again.err.contains("a was submitted before"), "{}", again.err);
    assert!(again.err.contains("It succeeded on centos at "), "{}", again.err);
    assert!(again.err.contains("hint: to run it again, give another --submission-id\n"), "{}", again.err);
    shows!("submit.error", world.fails(4, &["submit", "--submission-id", "a", "--", "echo other"]));
}

#[test]
fn submit_ends_as_the_job_does() {
    let world = World::new();
    shows!(
        "submit-failed",
        world.fails(
            1,
            &["submit", "--wait", "--submission-id", "bad", "--cluster", "centos", "--", "echo oh; exit 3"]
        )
    );
    let listed = world.ok(&["jobs"]);
    let last = listed.lines().last().unwrap();
    assert_eq!(last, "    oh (exit code 3)", "below a failed job, the line that says why: {listed}");
    let told = world.fails(2, &["submit"]);
    assert!(told.contains("hint: write the command after --"), "{told}");
    let told = world.fails(2, &["submit", "--cluster", "moc", "--", "x"]);
    assert!(
        told.contains("unknown cluster moc") && told.contains("hint: there are centos, lab, mac"),
        "{told}"
    );
    assert!(world.fails(2, &["submit", "--entrypoint-memory", "much", "--", "x"]).contains("16GiB"));
    assert!(world.fails(2, &["submit", "--metadata-json", "{", "--", "x"]).contains("--metadata-json"));
}

#[test]
fn a_flag_that_does_not_exist_is_never_part_of_the_command() {
    let world = World::new();
    for (arguments, nearest) in [
        (["submit", "--submision-id", "x", "--", "true"].as_slice(), "--submission-id"),
        (&["submit", "--need", "cpu=4", "--", "python", "train.py"], "--needs"),
        (&["submit", "--no-wait", "--tags", "linux", "python", "train.py"], "--tag"),
        (&["what-if", "--require-clusters", "mac"], "--require-cluster"),
    ] {
        let told = world.fails(2, arguments);
        assert!(told.contains(&format!("a similar argument exists: '{nearest}'")), "{told}");
    }
    assert!(world.fails(2, &["submit", "-x", "--", "true"]).contains("unexpected argument '-x'"));
    assert!(world.fails(2, &["submit", "--priority", "--needs", "cpu=1", "--", "x"]).contains("--priority"));
    assert_eq!(world.json(&["jobs"])["items"], serde_json::json!([]), "nothing was submitted");

    // --id is the id; after the first word, or `--`, everything belongs to the command.
    let entrypoint = |arguments: &[&str]| {
        world.ok(&[&["submit", "--no-wait", "--require-cluster", "lab"], arguments].concat());
        world.json(&["job", arguments[1]])["entrypoint"].as_str().unwrap().to_owned()
    };
    assert_eq!(entrypoint(&["--id", "a", "--", "true"]), "true");
    assert_eq!(
        entrypoint(&["--id", "b", "python", "x.py", "--id", "7", "-o", "y"]),
        "python x.py --id 7 -o y"
    );
    assert_eq!(entrypoint(&["--id", "c", "--", "--odd", "name"]), "--odd name");
}

#[test]
fn submit_says_all_that_ray_job_submit_can() {
    let world = World::new();
    fs::write(world.dir.join("env.yaml"), "pip: requirements.txt\nenv_vars: {A: '1'}\n").unwrap();
    fs::write(world.dir.join("requirements.txt"), "polars\nnumpy\n").unwrap();
    world.ok(&[
        "submit",
        "--no-wait",
        "--submission-id",
        "all",
        "--runtime-env",
        "env.yaml",
        "--metadata-json",
        "{\"team\": \"fund\"}",
        "--entrypoint-num-cpus",
        "0.5",
        "--entrypoint-num-gpus",
        "1",
        "--entrypoint-memory",
        "1000000",
        "--verify",
        "none",
        "--entrypoint-resources",
        "{\"tpu\": 2}",
        "--require-cluster",
        "lab",
        "--tag",
        "a,b",
        "--priority",
        "-3",
        "--max-retries",
        "2",
        "--retry-on",
        "-9,137",
        "--never-retry-on",
        "2",
        "--preemptible",
        "--stop-grace",
        "10m",
        "--on-cluster-loss",
        "requeue",
        "--",
        "python",
        "train.py",
        "--name",
        "it is",
    ]);
    let job = world.json(&["job", "all"]);
    assert_eq!(job["runtime_env"], serde_json::json!({"pip": ["polars", "numpy"], "env_vars": {"A": "1"}}));
    assert_eq!(job["demand"], serde_json::json!({"CPU": 0.5, "GPU": 1, "memory": 1_000_000, "tpu": 2}));
    assert_eq!(job["entrypoint"], "python train.py --name 'it is'");
    assert_eq!((&job["preferred_cluster"], &job["required"]), (&"lab".into(), &true.into()));
    assert_eq!((&job["priority"], &job["max_retries"]), (&(-3).into(), &2.into()));
    assert_eq!(job["retry_on"], serde_json::json!([-9, 137]));
    assert_eq!(job["never_retry_on"], serde_json::json!([2]));
    let shown = world.ok(&["job", "all"]);
    assert!(shown.contains("2 at most, on exit codes -9, 137, never on 2"), "{shown}");
    assert_eq!((&job["preemptible"], &job["stop_grace"]), (&true.into(), &600.0.into()));
    assert!(shown.contains("to make room for other work, within 600 s"), "{shown}");
    assert_eq!(job["on_cluster_loss"], "requeue");
    assert_eq!(job["metadata"]["team"], "fund");
    assert_eq!(job["tags"], serde_json::json!(["a", "b"]));
}

#[test]
fn a_working_dir_is_packed_by_rays_rules_and_uploaded_once() {
    let world = World::new();
    let project = world.dir.join("project");
    for (name, text) in [
        ("train.py", "print(1)"),
        ("data/big.csv", "x"),
        ("data/keep.csv", "x"),
        ("logs/a.log", "x"),
        ("notes.txt", "x"),
        (".git/config", "x"),
        ("inner/.gitignore", "secret.txt"),
        ("inner/secret.txt", "x"),
        ("inner/open.txt", "x"),
        (".gitignore", "data/\n!data/keep.csv\n"),
        (".rayignore", "logs\n"),
    ] {
        let path = project.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    fs::create_dir_all(project.join("empty")).unwrap();
    let submit = |id: &str| {
        world.ok(&[
            "submit",
            "--no-wait",
            "--submission-id",
            id,
            "--cluster",
            "centos",
            "--working-dir",
            "project",
            "--runtime-env-json",
            "{\"excludes\": [\"notes.txt\"]}",
            "--",
            "forever",
        ]);
        world.until(&["job", id], |job| job["state"] == "running")["runtime_env"].clone()
    };
    let first = submit("one");
    assert_eq!(submit("two"), first, "named by its content");
    let uri = first["working_dir"].as_str().unwrap();
    assert!(uri.starts_with("gcs://_ray_pkg_") && uri.ends_with(".zip"), "{uri}");
    assert_eq!(first.get("excludes"), None);
    // The package on the cluster, under a name of the control plane.
    let packages: Vec<_> = world.centos.packages().into_values().collect();
    assert_eq!(packages.len(), 1);
    let package = world.dir.join("package.zip");
    fs::write(&package, &packages[0]).unwrap();
    let listed = Command::new("python3").args(["-m", "zipfile", "-l"]).arg(&package).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let names: Vec<_> = listed.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(
        names,
        [
            ".gitignore",
            ".rayignore",
            "data/keep.csv",
            "empty/",
            "inner/.gitignore",
            "inner/open.txt",
            "train.py"
        ]
    );
    // Ray deletes unused packages; for the next job it is uploaded again.
    let (name, _) = world.centos.packages().pop_first().unwrap();
    world.centos.drop_package(&name);
    submit("three");
    assert!(world.centos.packages().contains_key(&name));
    let told = world.fails(2, &["submit", "--working-dir", "none", "--", "x"]);
    assert!(told.contains("working_dir none") && told.contains("must be absolute"), "{told}");
    for command in ["submit", "what-if"] {
        let told = world.fails(2, &[command, "--working-dir", "/no/such/folder", "--", "x"]);
        assert!(told.contains("--working-dir /no/such/folder does not exist here"), "{told}");
        assert!(told.contains(r#"--runtime-env-json '{"working_dir":"/no/such/folder"}'"#), "{told}");
    }
    let on_the_cluster = r#"{"working_dir": "/no/such/folder"}"#;
    let done = world.run(&["submit", "--no-wait", "--runtime-env-json", on_the_cluster, "--", "true"]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let warning = "working_dir /no/such/folder does not exist here: it must exist on the cluster";
    assert!(done.err.contains(warning), "{}", done.err);
}

#[test]
fn a_control_plane_cannot_choose_what_leaves_this_machine() {
    let world = World::new();
    let (own, folder) = (world.dir.join("cluster.yaml"), world.dir.join("library"));
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("secret.py"), "").unwrap();
    let before = fs::read_to_string(&own).unwrap();
    let named = format!("tags: [linux, x86_64], runtime_env: {{working_dir: '{}'}}", folder.display());
    fs::write(&own, before.replace("tags: [linux, x86_64]", &named)).unwrap();
    world.until(&["clusters"], |clusters| clusters["items"][0]["runtime_env"]["working_dir"].is_string());
    // Another user's configuration: the folder is on their machine, and they did not name it.
    let other = world.dir.join("other.yaml");
    fs::write(&other, before).unwrap();
    let submit = |id: &str, config: &Path| {
        let words = ["submit", "--no-wait", "--submission-id", id, "--cluster", "centos", "--", "forever"];
        Done::of(world.command(&words).env("CLUSTER_CONFIG_FILE", config))
    };
    let refused = submit("one", &other);
    assert!(refused.err.contains("your own cluster.yaml does not name it"), "{}", refused.err);
    let packed = submit("two", &own);
    assert_eq!((packed.code, packed.err.contains("does not name it")), (Some(0), false), "{}", packed.err);
    world.until(&["job", "two"], |job| job["state"] == "running");
    assert_eq!(world.centos.packages().len(), 1);
}

#[test]
fn ctrl_c_leaves_the_job_and_says_how_to_look() {
    let world = World::new();
    let mut waiting = world
        .command(&["submit", "--submission-id", "long", "--require-cluster", "lab", "--", "x"])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(waiting.stderr.take().unwrap()).lines();
    assert_eq!(told.next().unwrap().unwrap(), "submitted long");
    // It handles Ctrl-C as soon as it waits.
    world.until(&["jobs"], |jobs| jobs["items"][0]["id"] == "long");
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(Command::new("kill").args(["-INT", &waiting.id().to_string()]).status().unwrap().success());
    assert_eq!(waiting.wait().unwrap().code(), Some(130));
    let told: Vec<_> = told.map(Result::unwrap).collect();
    assert_eq!(
        told,
        [
            "error: no longer waiting; long goes on",
            "hint: its log: ray-multicluster logs -f long; to stop it: ray-multicluster stop long"
        ]
    );
    assert_eq!(world.json(&["job", "long"])["state"], "queued");
}

#[test]
fn what_may_not_be_meant_is_told_at_once() {
    let world = World::new();
    let mistyped = ["--tag", "lnux", "--tag", "tradebot", "--", "true"];
    let preview = world.ok(&[&["what-if"], &mistyped[..]].concat());
    shows!("what-if-notice", preview);
    let done = world.run(&[&["submit", "--no-wait", "--id", "a"], &mistyped[..]].concat());
    assert_eq!(done.code, Some(0), "{}", done.err);
    shows!("submit-notice", done.err);
    let env = r#"{"work_dir": "."}"#;
    let told = world.fails(2, &["submit", "--runtime-env-json", env, "--", "true"]);
    assert!(told.contains(r#"runtime_env has no key "work_dir""#), "{told}");
    assert!(told.contains("hint: did you mean working_dir?"), "{told}");
}

#[test]
fn what_if_submits_nothing() {
    let world = World::new();
    shows!("what-if", world.ok(&["what-if", "--needs", "cpu=2", "--tag", "linux"]));
    shows!("what-if.json", world.ok(&["what-if", "--needs", "gpu=1", "-o", "json"]));
    shows!("what-if-waits", world.ok(&["what-if", "--needs", "cpu=64", "--", "python", "big.py"]));
    assert_eq!(world.json(&["jobs"])["items"], serde_json::json!([]));
    shows!("what-if.error", world.fails(4, &["what-if", "--cluster", "moc"]));
}

#[test]
fn what_a_job_submits_is_submitted_from_inside_it() {
    let world = World::new();
    world.ok(&["submit", "--no-wait", "--submission-id", "outer", "--cluster", "centos", "--", "forever"]);
    world.until(&["job", "outer"], |job| job["state"] == "running");
    let inside = |parent: &str, id: &str| {
        let mut command = world.command(&["submit", "--no-wait", "--submission-id", id, "--", "echo hi"]);
        command.env("RAY_MULTICLUSTER_JOB_ID", parent).env("RAY_MULTICLUSTER_CURRENT_CLUSTER", "centos");
        Done::of(&mut command)
    };
    assert_eq!(inside("outer", "inner").code, Some(0));
    assert_eq!(world.json(&["job", "inner"])["parent_job"], "outer");
    let refused = inside("gone", "lost");
    assert_eq!(refused.code, Some(4), "{}", refused.err);
}

#[test]
fn a_job_continues_the_trace_that_its_submitter_was_started_in() {
    let world = World::new();
    let given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let mut command = world.command(&["submit", "--submission-id", "a", "--cluster", "centos", "--", "true"]);
    assert_eq!(Done::of(command.env("TRACEPARENT", given)).code, Some(0));
    let sent = &world.centos.submissions()[0].request;
    assert_eq!(sent["runtime_env"]["env_vars"]["TRACEPARENT"], given);
}
