//! `status`, `jobs`, `job`, `logs`, `stop`, `retry`, `why`, `queue`.

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

use crate::{
    shows,
    world::{Done, World},
};

#[test]
fn status_shows_the_pool_at_a_glance() {
    let world = World::new().with_a_job_that_waits();
    shows!("status", world.ok(&["status"]));
    shows!("status.json", world.ok(&["status", "-o", "json"]));
    // A terminal may be wide, or colours may be forced.
    let wide = world.command(&["status", "--color", "always"]).env("COLUMNS", "140").output().unwrap();
    assert!(String::from_utf8(wide.stdout).unwrap().contains("\u{1b}["));
}

#[test]
fn status_shows_that_the_changed_file_was_refused() {
    let world = World::new();
    let file = world.dir.join("cluster.yaml");
    let good = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, good.replace("weight: 2.0", "wieght: 2.0")).unwrap();
    world.until(&["status"], |status| status["pool"]["config_problem"].is_object());
    let shown = world.ok(&["status"]);
    let line = shown.lines().find(|line| line.starts_with("CONFIG")).unwrap();
    assert!(line.contains("the earlier one stays in force: ") && line.contains("wieght"), "{line}");
    let told = world.ok(&["events"]);
    assert!(told.contains("config   file  refused: ") && told.contains("cluster.yaml:3:"), "{told}");
    std::fs::write(&file, good).unwrap();
    world.until(&["status"], |status| status["pool"]["config_problem"].is_null());
    assert!(!world.ok(&["status"]).contains("CONFIG"));
}

#[test]
fn a_failed_job_shows_why_and_where_it_is_in_ray() {
    let world = World::new();
    world.fails(
        1,
        &["submit", "--wait", "--submission-id", "bad", "--cluster", "centos", "--", "echo oh; exit 3"],
    );
    shows!("job-failed", world.ok(&["job", "bad"]));
    shows!("jobs-failed", world.ok(&["jobs"]));
    shows!("why-failed", world.ok(&["why", "bad"]).lines().next().unwrap().to_owned());
    let listed = world.json(&["jobs"]);
    let bad = &listed["items"][0];
    assert_eq!((bad["cause"].as_str(), bad["exit_code"].as_i64()), (Some("oh"), Some(3)));
    assert!(bad["running_at"].as_u64() <= bad["ended_at"].as_u64() && bad["running_at"].is_u64(), "{bad}");
}

#[test]
fn a_control_plane_that_is_not_there_is_named_with_what_was_tried() {
    let world = World::new();
    shows!("status.error", world.fails(5, &["status", "--address", "127.0.0.1:1"]));
    shows!("address.error", world.fails(2, &["status", "--address", "ftp://x"]));
    // Another program answers there.
    let told = world.fails(5, &["status", "--address", &world.centos.url()]);
    assert!(told.contains("is not a control plane of this version: HTTP 404"), "{told}");
}

#[test]
fn ones_own_control_plane_is_found_without_an_address() {
    let world = World::new();
    let done = world
        .program(&["queue"])
        .env("RAY_MULTICLUSTER_STATE_DIR", world.dir.join("state"))
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(done.stdout).unwrap(), "nothing waits\n");
    // No control plane runs for the file: the default address is tried, and the error names the file.
    let done = world.program(&["queue"]).output().unwrap();
    if done.status.code() == Some(5) {
        let told = String::from_utf8(done.stderr).unwrap();
        assert!(
            told.contains("no control plane of yours runs for ") && told.contains("cluster.yaml"),
            "{told}"
        );
    }
}

#[test]
fn jobs_lists_filters_sorts_and_pages() {
    let world = World::new();
    assert_eq!(world.run(&["jobs"]).err, "no jobs yet\n");
    let world = world.with_a_job_that_ran().with_a_job_that_waits();
    shows!("jobs", world.ok(&["jobs"]));
    shows!("jobs.json", world.ok(&["jobs", "-o", "json"]));
    let ids = |arguments: &[&str]| {
        let found = world.json(&[&["jobs"], arguments].concat());
        let ids = found["items"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_owned());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(ids(&[]), ["waits", "ran"]);
    assert_eq!(ids(&["--sort", "id"]), ["ran", "waits"]);
    assert_eq!(ids(&["--state", "queued,running"]), ["waits"]);
    assert_eq!(ids(&["--cluster", "centos"]), ["ran"]);
    assert_eq!(ids(&["--tag", "nightly"]), ["ran"]);
    assert_eq!(ids(&["--id", "wai"]), ["waits"]);
    assert_eq!(ids(&["--search", "X.PY"]), ["waits"]);
    assert_eq!(ids(&["--kind", "task"]), [""; 0]);
    assert_eq!(ids(&["--all"]), ["waits", "ran"]);
    let first = world.run(&["jobs", "-n", "1"]);
    assert!(first.out.contains("waits") && !first.out.contains("ran"), "{}", first.out);
    let cursor = first.err.split("--cursor ").nth(1).unwrap().split(',').next().unwrap().to_owned();
    assert_eq!(ids(&["--cursor", &cursor]), ["ran"]);
    assert_eq!(world.run(&["jobs", "--tag", "other"]).err, "no matching jobs\n");
    shows!("jobs.error", world.fails(2, &["jobs", "--state", "runing"]));
}

#[test]
fn job_shows_everything_on_one_screen() {
    let world = World::new().with_a_job_that_ran().with_a_job_that_waits();
    shows!("job", world.ok(&["job", "ran"]));
    shows!("job.json", world.ok(&["job", "ran", "-o", "json"]));
    shows!("job-waits", world.ok(&["job", "waits"]));
    shows!("job.error", world.fails(3, &["job", "none"]));
}

#[test]
fn why_says_what_each_cluster_says() {
    let world = World::new().with_a_job_that_ran().with_a_job_that_waits();
    shows!("why", world.ok(&["why", "waits"]));
    shows!("why.json", world.ok(&["why", "waits", "-o", "json"]));
    shows!("why-ran", world.ok(&["why", "ran"]));
    shows!("why.error", world.fails(3, &["why", "none"]));
}

#[test]
fn explanations_are_in_chinese_where_that_is_wanted() {
    let world = World::new().with_a_job_that_ran().with_a_job_that_waits();
    shows!("why.zh", world.ok(&["why", "waits", "--lang", "zh"]));
    shows!("why-ran.zh", world.ok(&["--lang", "zh", "why", "ran"]));
    shows!("job-waits.zh", world.ok(&["job", "waits", "--lang", "zh"]));
    shows!("queue.zh", world.ok(&["queue", "--lang", "zh"]));
    shows!("what-if.zh", world.ok(&["what-if", "--needs", "cpu=2", "--tag", "linux", "--lang", "zh"]));
    shows!("what-if-waits.zh", world.ok(&["what-if", "--needs", "cpu=64", "--lang", "zh"]));
    let told = world.fails(2, &["why", "waits", "--lang", "de"]);
    assert!(told.contains("write en or zh"), "{told}");

    // By default from the locale: the first of these variables that is set.
    let is_chinese = |locale: &[(&str, &str)]| {
        let done = Done::of(world.command(&["why", "waits"]).envs(locale.iter().copied()));
        done.out.contains("排队")
    };
    assert!(is_chinese(&[("LANG", "zh_CN.UTF-8")]));
    assert!(is_chinese(&[("LANG", "en_US.UTF-8"), ("LC_MESSAGES", "zh_CN.UTF-8")]));
    assert!(!is_chinese(&[("LANG", "zh_CN.UTF-8"), ("LC_ALL", "C.UTF-8")]));
    assert!(!is_chinese(&[("LANG", "de_DE.UTF-8")]));

    // Stable words are the same for programs; only texts are translated.
    let (en, zh) = (
        world.json(&["what-if", "--needs", "gpu=1"]),
        world.json(&["what-if", "--needs", "gpu=1", "--lang", "zh"]),
    );
    let words = |answer: &serde_json::Value| {
        let said = answer["clusters"].as_array().unwrap().iter();
        said.map(|said| (said["verdict"].clone(), said["reason"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(words(&en), words(&zh));
    assert_eq!(en["clusters"][0]["text"], "too small: GPU 1 requested, 0 in total");
    assert_eq!(zh["clusters"][0]["text"], "容量不足：需要 GPU 1，总共 0");
}

#[test]
fn logs_prints_what_a_job_printed() {
    let world = World::new();
    world.ok(&["submit", "--wait", "--submission-id", "talks", "--", "lines 3"]);
    let all = world.ok(&["logs", "talks"]);
    assert!(all.ends_with("\nline 1\nline 2\nline 3\n"), "{all}");
    shows!("logs", all);
    assert_eq!(world.ok(&["logs", "talks", "-n", "1"]), "line 3\n");
    assert_eq!(world.ok(&["logs", "talks", "-f"]), all);
    shows!("logs.json", world.ok(&["logs", "talks", "-o", "json"]));
    shows!("logs-follow.json", world.ok(&["logs", "talks", "-f", "-o", "json"]));
    shows!("logs.error", world.fails(3, &["logs", "none"]));
    assert!(world.fails(3, &["logs", "-f", "none"]).contains("none"));
}

#[test]
fn a_log_is_followed_over_a_restart_without_repeats() {
    let mut world = World::new();
    let entrypoint = "echo one; sleep 4; echo two";
    world.ok(&["submit", "--no-wait", "--submission-id", "talks", "--cluster", "centos", "--", entrypoint]);
    let mut follower = world.command(&["logs", "-f", "talks"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(follower.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(told.by_ref().any(|line| line == "one"));
    world.restart();
    assert_eq!(told.collect::<Vec<_>>(), ["two"]);
    assert!(follower.wait().unwrap().success());
}

#[test]
fn stop_and_retry_say_what_became_of_it() {
    let world = World::new().with_a_job_that_ran().with_a_job_that_waits();
    shows!("stop", world.ok(&["stop", "waits"]));
    shows!("stop.error", world.fails(4, &["stop", "ran"]));
    shows!("retry", world.ok(&["retry", "waits"]));
    shows!("stop.json", world.ok(&["stop", "waits", "-o", "json"]));
    shows!("retry.json", world.ok(&["retry", "waits", "-o", "json"]));
    shows!("retry.error", world.fails(4, &["retry", "ran"]));
    assert!(world.fails(3, &["stop", "none"]).contains("none"));
    // A refusal does not stop the others.
    let done = world.run(&["stop", "none", "waits", "ran"]);
    assert_eq!((done.code, done.out.as_str()), (Some(3), "waits is stopped\n"), "{}", done.err);
    assert!(done.err.contains("none") && done.err.contains("job ran is succeeded"), "{}", done.err);
}

#[test]
fn queue_shows_what_is_next_and_why_it_waits() {
    let world = World::new();
    assert_eq!(world.ok(&["queue"]), "nothing waits\n");
    let world = world.with_a_job_that_waits();
    shows!("queue", world.ok(&["queue"]));
    shows!("queue.json", world.ok(&["queue", "-o", "json"]));
    let told = world.fails(5, &["queue", "--address", "http://127.0.0.1:1"]);
    assert!(told.contains("cannot reach a control plane at http://127.0.0.1:1"), "{told}");
}
