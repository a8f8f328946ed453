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
    assert!(line.contains("what was last valid stays in force: ") && line.contains("wieght"), "{line}");
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
    assert_eq!(String::from_utf8(done.stdout).unwrap(), "nothing is queued\n");
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
    assert_eq!(ids(&["--state", "Waiting,starting,unreachable"]), ["waits"], "words of other tools");
    assert_eq!(ids(&["--state", "成功"]), ["ran"]);
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
fn lists_are_wide_and_shown_again() {
    let world = World::new().with_a_job_that_ran().with_a_job_that_waits();
    let wide = |arguments: &[&str]| Done::of(world.command(arguments).env("COLUMNS", "240")).out;
    shows!("jobs.wide", wide(&["jobs", "-o", "wide"]));
    shows!("clusters.wide", wide(&["clusters", "-o", "wide"]));
    let sorted = |field: &str| {
        let jobs = world.json(&["jobs", "--sort", field]);
        jobs["items"][0]["id"].as_str().unwrap().to_owned()
    };
    assert_eq!((sorted("id").as_str(), sorted("for").as_str()), ("ran", "ran"));

    for (command, shown) in
        [("jobs", "waits"), ("queue", "waits"), ("status", "centos"), ("clusters", "centos")]
    {
        let mut watching = world.command(&[command, "--watch=1"]).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(watching.stdout.take().unwrap()).lines().map(Result::unwrap);
        let seen = lines.filter(|line| line.contains(shown)).take(2).count();
        watching.kill().unwrap();
        watching.wait().unwrap();
        assert_eq!(seen, 2, "{command}");
    }
}

#[test]
fn the_beginning_of_an_id_is_enough() {
    let world = World::new().with_a_job_that_ran().with_a_job_that_waits();
    assert_eq!(world.json(&["job", "wai"])["id"], "waits");
    assert!(world.ok(&["why", "wai"]).contains("lab"));
    assert!(world.ok(&["logs", "ra"]).ends_with("hello\n"));
    assert!(world.ok(&["logs", "-f", "ra"]).ends_with("hello\n"));
    // Of an order, only with a yes: it may be a mistyped id of a job that is gone.
    shows!("stop-beginning.error", world.fails(3, &["stop", "wai"]));
    assert_eq!(world.json(&["job", "waits"])["state"], "queued");
    assert_eq!(world.ok(&["stop", "wai", "--yes"]), "waits is stopped\n");

    for nth in 1..=7 {
        let id = format!("rank-{nth}");
        world.ok(&["submit", "--no-wait", "--submission-id", &id, "--require-cluster", "lab", "--", &id]);
    }
    shows!("job-ambiguous.error", world.fails(2, &["job", "ra"]));
    assert_eq!(world.json(&["job", "ran"])["id"], "ran", "the whole id of one is no beginning");
    assert!(world.fails(2, &["stop", "rank", "--yes"]).contains("several jobs"));
}

#[test]
fn many_jobs_are_stopped_retried_and_deleted_by_a_filter() {
    let world = World::new().with_a_job_that_ran();
    for nth in 1..=7 {
        let id = format!("sweep-{nth}");
        let submit =
            ["submit", "--no-wait", "--submission-id", &id, "--require-cluster", "lab", "--tag", "sweep"];
        world.ok(&[&submit[..], &["--", &id]].concat());
    }
    let states = |arguments: &[&str]| {
        let found = world.json(&[&["jobs"], arguments].concat());
        found["items"].as_array().unwrap().iter().filter(|job| job["state"] == "queued").count()
    };
    // Without a terminal nobody can be asked: it is shown, and nothing is done.
    let asked = world.run(&["stop", "--state", "queued", "--tag", "sweep"]);
    assert_eq!((asked.code, asked.out.as_str()), (Some(2), ""));
    shows!("stop-many.error", asked.err);
    assert_eq!(states(&[]), 7);

    let done = world.run(&["stop", "--state", "queued,succeeded", "--yes"]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    shows!("stop-many", format!("{}---\n{}", done.out, done.err));
    assert_eq!(states(&[]), 0);
    assert_eq!(world.run(&["stop", "--tag", "sweep", "--yes"]).err, "no matching jobs to stop\n");

    let done = world.run(&["retry", "--id", "sweep-", "--yes"]);
    assert_eq!((done.code, done.out.lines().count()), (Some(0), 7), "{}", done.err);
    assert_eq!(states(&["--tag", "sweep"]), 7);

    // What has not ended is not deleted.
    shows!("delete.error", world.fails(4, &["delete", "sweep-1"]));
    assert_eq!(world.ok(&["delete", "ran"]), "ran is deleted\n");
    world.ok(&["stop", "--tag", "sweep", "--yes"]);
    let done = world.run(&["delete", "--tag", "sweep", "--yes", "-o", "json"]);
    assert_eq!((done.code, done.out.lines().count()), (Some(0), 7), "{}", done.err);
    assert!(done.out.starts_with("{\"deleted\":true,\"id\":\"sweep-"), "{}", done.out);
    assert_eq!(world.run(&["jobs"]).err, "no jobs yet\n");

    shows!("stop-which.error", world.fails(2, &["stop"]));
    assert!(world.fails(2, &["stop", "x", "--tag", "sweep"]).contains("cannot be used with"));
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
fn why_shows_the_reason_that_stays_first_and_the_others_below() {
    let world = World::new();
    world.ok(&["clusters", "cordon", "mac", "--note", "disk"]);
    world.ok(&["submit", "--no-wait", "--id", "large", "--needs", "cpu=64", "--", "true"]);
    shows!("why-others", world.ok(&["why", "large"]));
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
fn a_log_is_shown_from_its_start_by_attempt_and_from_its_last_lines_on() {
    let world = World::new();
    let submit =
        ["submit", "--wait", "--submission-id", "twice", "--max-retries", "1", "--cluster", "centos"];
    world.run(&[&submit[..], &["--", "lines 30; exit 1"]].concat());
    let done = world.run(&["logs", "twice"]);
    assert_eq!(done.err, "this is attempt 2; --attempt 1 shows the one before\n");
    let whole = done.out;
    assert_eq!(world.ok(&["logs", "twice", "--since-start"]), whole);
    assert_eq!(world.ok(&["logs", "twice", "--since-start", "--attempt", "2"]), whole);
    let lines = |text: &str| text.lines().filter(|line| line.starts_with("line ")).count();
    assert_eq!(lines(&world.ok(&["logs", "-f", "twice", "--attempt", "1"])), 30);
    assert_eq!(world.ok(&["logs", "-f", "-n", "3", "twice"]), "line 28\nline 29\nline 30\n");
    assert_eq!(
        world.run(&["logs", "twice", "--attempt", "3"]).err,
        "twice has no attempt 3: it has 2 attempts\n"
    );

    // Last lines, then what follows, over a restart.
    let mut world = world;
    let entrypoint = "lines 30; sleep 4; echo end";
    world.ok(&["submit", "--no-wait", "--submission-id", "talks", "--cluster", "centos", "--", entrypoint]);
    world.until(&["logs", "talks"], |log| log["text"].as_str().unwrap().ends_with("line 30\n"));
    let mut follower =
        world.command(&["logs", "-f", "-n", "2", "talks"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut told = BufReader::new(follower.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(told.by_ref().take(2).collect::<Vec<_>>(), ["line 29", "line 30"]);
    world.restart();
    assert_eq!(told.collect::<Vec<_>>(), ["end"]);
    assert!(follower.wait().unwrap().success());
}

#[test]
fn a_job_without_output_says_where_to_look() {
    let world = World::new().with_a_job_that_waits();
    assert_eq!(world.run(&["logs", "waits"]).err, "waits has not run yet; see ray-multicluster why waits\n");
    assert_eq!(world.run(&["logs", "waits", "--since-start"]).err, world.run(&["logs", "waits"]).err);
    let submit =
        ["submit", "--no-wait", "--submission-id", "broken", "--cluster", "centos", "--", "never-start"];
    world.ok(&submit);
    world.until(&["job", "broken"], |job| job["state"] == "pending");
    world.centos.fail_to_start("broken");
    world.until(&["job", "broken"], |job| job["state"] == "failed");
    shows!("logs-not-started", world.run(&["logs", "broken"]).err);
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
    assert_eq!(world.ok(&["queue"]), "nothing is queued\n");
    let world = world.with_a_job_that_waits();
    shows!("queue", world.ok(&["queue"]));
    let narrow = |columns: &str| Done::of(world.command(&["queue"]).env("COLUMNS", columns)).out;
    shows!("queue.narrow", narrow("48"));
    shows!("queue.json", world.ok(&["queue", "-o", "json"]));
    let told = world.fails(5, &["queue", "--address", "http://127.0.0.1:1"]);
    assert!(told.contains("cannot reach a control plane at http://127.0.0.1:1"), "{told}");
}
