use multicluster_api::JobRequest;
use multicluster_types::{OnClusterLoss, Tag};
use serde_json::json;

use super::*;

fn a_job() -> JobRequest {
    JobRequest { entrypoint: "python x.py".into(), ..JobRequest::default() }
}

fn with_env(env: serde_json::Value) -> JobRequest {
    JobRequest { runtime_env: serde_json::from_value(env).unwrap(), ..a_job() }
}

fn with_hints(hints: &[(&str, &str)]) -> JobRequest {
    let metadata = hints.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    JobRequest { metadata, ..a_job() }
}

fn checked_alone(job: JobRequest) -> Checked {
    check_alone(job, Dedup::ByContent).unwrap()
}

fn refused(job: JobRequest) -> Problem {
    check_alone(job, Dedup::ByContent).unwrap_err()
}

#[test]
fn hints_in_the_metadata_say_what_the_fields_leave_out() {
    let job = with_hints(&[
        ("a", "b"),
        ("multicluster.arch", "aarch64"),
        ("multicluster.home", "/home/zorro"),
        ("multicluster.max_retries", "2"),
        ("multicluster.needs", "cpu=16,memory=32GiB"),
        ("multicluster.never_retry_on", "2"),
        ("multicluster.on_cluster_loss", "requeue"),
        ("multicluster.parent_cluster", "mac"),
        ("multicluster.parent_job", "outer"),
        ("multicluster.preemptible", "true"),
        ("multicluster.preferred_cluster", "mac"),
        ("multicluster.priority", "-7"),
        ("multicluster.required", "true"),
        ("multicluster.retry_on", "4, -9,3,"),
        ("multicluster.stop_grace", "10m"),
        ("multicluster.tags", "linux, x86_64,"),
        ("zzz", "c"),
    ]);
    let checked = checked_alone(job.clone());
    let work = &checked.work;
    assert_eq!(work.preference.as_ref().map(|p| (p.cluster.as_str(), p.required)), Some(("mac", true)));
    assert_eq!(work.tags.iter().map(Tag::as_str).collect::<Vec<_>>(), ["linux", "x86_64"]);
    assert_eq!((work.priority.0, work.retry.max_retries), (-7, 2));
    let codes = work.retry.codes.as_ref().unwrap();
    assert_eq!([codes.retry_on(), codes.never_retry_on()].map(ToString::to_string), ["-9, 3, 4", "2"]);
    assert_eq!((work.preemptible, checked.payload.stop_grace), (true, Some(Span::minutes(10))));
    assert_eq!(work.platform.as_ref().unwrap().to_string(), "arm64");
    assert_eq!(work.demand.to_string(), "CPU 16, memory 32 GiB");
    assert!(work.on_one_node().is_empty() && work.burdens_head(), "its driver reserves none of it");
    assert_eq!(work.retry.on_cluster_loss, OnClusterLoss::Requeue);
    assert_eq!(checked.parent.as_ref().map(|p| p.job.as_str()), Some("outer"));
    assert_eq!(checked.payload.home.as_deref(), Some("/home/zorro"));
    assert_eq!(checked.payload.metadata.len(), 17, "the metadata stays as it was");

    let checked =
        checked_alone(JobRequest { priority: Some(3), preferred_cluster: Some("centos".into()), ..job });
    assert_eq!(checked.work.priority.0, 3, "a field goes before a hint");
    assert_eq!(checked.work.preference.unwrap().cluster.as_str(), "centos");
}

#[test]
fn a_hint_that_cannot_be_used_is_named_with_what_can() {
    let problem = refused(with_hints(&[("multicluster.prefered_cluster", "mac")]));
    assert_eq!(problem.code, "bad_hint");
    let hint = problem.hint.unwrap();
    assert!(
        hint.starts_with("did you mean multicluster.preferred_cluster? known names: multicluster."),
        "{hint}"
    );
    for (name, value) in [
        ("multicluster.required", "yes"),
        ("multicluster.priority", "high"),
        ("multicluster.priority", "99999999999"),
        ("multicluster.max_retries", "-1"),
        ("multicluster.retry_on", "3;4"),
        ("multicluster.never_retry_on", "SIGKILL"),
        ("multicluster.never_retry_on", "99999999999999999999"),
        ("multicluster.preemptible", "yes"),
        ("multicluster.stop_grace", "soon"),
        ("multicluster.stop_grace", "-5s"),
        ("multicluster.on_cluster_loss", "panic"),
        ("multicluster.dedup", "never"),
        ("multicluster.needs", "16"),
        ("multicluster.needs", "cpu=much"),
        ("multicluster.parent_job", "alone"),
        ("multicluster.", ""),
    ] {
        let problem = refused(with_hints(&[(name, value)]));
        assert_eq!(problem.code, "bad_hint", "{name}={value}: {problem}");
    }
    let problem = refused(with_hints(&[("multicluster.required", "true")]));
    assert!(problem.message.contains("no preferred_cluster"), "{problem}");
}

#[test]
fn what_the_entrypoint_reserves_is_the_demand() {
    let reserve = EntrypointResources {
        num_cpus: Some(0.5),
        num_gpus: Some(1.0),
        memory: Some(1 << 30),
        resources: [("tpu".to_owned(), 2.0)].into(),
        ..EntrypointResources::default()
    };
    let demand = reserved(&reserve).unwrap();
    assert_eq!(demand.to_string(), "CPU 0.5, GPU 1, memory 1 GiB, tpu 2");
}

#[test]
fn amounts_that_ray_accepts_and_fails_are_refused() {
    let reserve = EntrypointResources::default;
    let custom =
        |name: &str, value| EntrypointResources { resources: [(name.to_owned(), value)].into(), ..reserve() };
    for (reserve, said) in [
        (EntrypointResources { num_cpus: Some(-1.0), ..reserve() }, "entrypoint_num_cpus: -1 is negative"),
        (EntrypointResources { num_gpus: Some(f64::NAN), ..reserve() }, "entrypoint_num_gpus: \"NaN\""),
        (
            EntrypointResources { memory: Some(10u64.pow(15)), ..reserve() },
            "entrypoint_memory: 1e15 is too large",
        ),
        (custom("CPU", 1.0), "entrypoint_resources contains CPU"),
        (custom("GPU", 1.0), "entrypoint_resources contains GPU"),
        (custom("memory", 1.0), "entrypoint_resources contains memory"),
        (custom("gpu", 1.0), "entrypoint_resources: unknown resource \"gpu\""),
        (custom("a b", 1.0), "entrypoint_resources: resource name"),
        (custom("x", -2.0), "entrypoint_resources \"x\": -2 is negative"),
    ] {
        let problem = reserved(&reserve).unwrap_err();
        assert!(problem.message.starts_with(said), "{problem}");
        assert!(problem.hint.is_some());
    }
}

#[test]
fn a_runtime_env_that_ray_accepts_and_fails_is_refused() {
    let deep = (0..40).fold(json!(1), |inner, _| json!([inner]));
    for (env, said) in [
        (json!({"env_vars": {"A": 1}}), "runtime_env.env_vars \"A\" is a number, not text"),
        (json!({"env_vars": ["A"]}), "runtime_env.env_vars is a list"),
        (json!({"working_dir": "."}), "runtime_env.working_dir \".\" is a path on your machine"),
        (json!({"working_dir": "src/x"}), "runtime_env.working_dir"),
        (json!({"working_dir": "C:\\x"}), "runtime_env.working_dir"),
        (json!({"working_dir": 5}), "runtime_env.working_dir holds a number"),
        (json!({"py_modules": "x"}), "runtime_env.py_modules is text, not a list"),
        (json!({"py_modules": ["./m"]}), "runtime_env.py_modules \"./m\" is a path on your machine"),
        (json!({"working_dir": "gcs://../../etc/passwd"}), "\"gcs://../../etc/passwd\" cannot be"),
        (json!({"working_dir": "gcs://"}), "\"gcs://\" cannot be"),
        (json!({"working_dir": "gcs://.."}), "\"gcs://..\" cannot be"),
        (json!({"x": deep}), "runtime_env is nested"),
    ] {
        let problem = refused(with_env(env));
        assert!(problem.message.starts_with(said), "{problem}");
    }
    for fine in [
        json!({"working_dir": "/data/project", "env_vars": {"A": "1"}, "conda": "ts"}),
        json!({"working_dir": "https://h/x.zip", "py_modules": null, "env_vars": null}),
    ] {
        assert!(checked_alone(with_env(fine)).uris.is_empty());
    }
    let uris = with_env(json!({"working_dir": "gcs://a.zip", "py_modules": ["gcs://b.zip", "s3://c"]}));
    assert_eq!(checked_alone(uris).uris, ["gcs://a.zip", "gcs://b.zip"]);
}

#[test]
fn the_sdk_of_a_job_is_a_package_that_was_uploaded() {
    let with = |uri: &str| JobRequest { sdk: Some(uri.to_owned()), ..a_job() };
    let checked = checked_alone(with("gcs://_ray_pkg_0123456789abcdef.zip"));
    assert_eq!(checked.uris, ["gcs://_ray_pkg_0123456789abcdef.zip"]);
    assert_eq!(checked.payload.sdk, Some(checked.uris[0].clone()));
    for (uri, said) in [
        ("", "sdk \"\" is not a package"),
        ("s3://bucket/sdk.zip", "sdk \"s3://bucket/sdk.zip\" is not a package"),
        ("gcs://sdk.whl", "sdk \"gcs://sdk.whl\" is not a package"),
        ("gcs://../sdk.zip", "\"gcs://../sdk.zip\" cannot be the URI of a package"),
    ] {
        let problem = refused(with(uri));
        assert_eq!(problem.code, "bad_job");
        assert!(problem.message.starts_with(said), "{problem}");
    }
}

#[test]
fn packages_stand_for_folders() {
    let with = |env: serde_json::Value, packages: serde_json::Value| JobRequest {
        packages: serde_json::from_value(packages).unwrap(),
        ..with_env(env)
    };
    let packages = json!({"/a/b/": "gcs://a.zip", "/a/b": "gcs://a.zip", "./m": "gcs://m.zip"});
    let env = json!({"working_dir": "gcs://w.zip", "py_modules": ["./m/", "/c"]});
    let checked = checked_alone(with(env, packages));
    assert_eq!(checked.uris, ["gcs://w.zip", "gcs://m.zip", "gcs://a.zip"]);
    let folders = json!({"./m": "gcs://m.zip", "/a/b": "gcs://a.zip"});
    assert_eq!(serde_json::to_value(&checked.payload.folders).unwrap(), folders);

    let many: BTreeMap<_, _> = (0..65).map(|n| (format!("/{n}"), "gcs://a.zip")).collect();
    for (packages, said) in [
        (json!({"": "gcs://a.zip"}), "packages: \"\" is not a folder"),
        (json!({"/": "gcs://a.zip"}), "packages: \"/\" is not a folder"),
        (json!({"s3://a": "gcs://a.zip"}), "packages: \"s3://a\" is not a folder"),
        (json!({"x".repeat(5000): "gcs://a.zip"}), "packages: \"xxx"),
        (json!({"/a": "s3://a.zip"}), "packages: \"s3://a.zip\" stands for \"/a\" and is no package"),
        (json!({"/a": "/b"}), "packages: \"/b\" stands for"),
        (json!({"/a": "gcs://../x"}), "\"gcs://../x\" cannot be the URI of a package"),
        (json!({"/a": "gcs://a.zip", "/a/": "gcs://b.zip"}), "packages: two stand for \"/a\""),
        (json!(many), "packages has 65 entries"),
    ] {
        let problem = refused(with(json!({}), packages));
        assert_eq!(problem.code, "bad_job");
        assert!(problem.message.starts_with(said), "{problem}");
    }
    let other = with(json!({"working_dir": "./n"}), json!({"./m": "gcs://m.zip"}));
    assert!(refused(other).message.contains("is a path on your machine"));
}

#[test]
fn a_job_is_bounded() {
    for entrypoint in ["", "  ", "a\0b", &"x".repeat(MAX_ENTRYPOINT + 1)] {
        assert_eq!(refused(JobRequest { entrypoint: entrypoint.to_owned(), ..a_job() }).code, "bad_job");
    }
    let many = (0..1000).map(|i| (i.to_string(), String::new())).collect();
    assert_eq!(refused(JobRequest { metadata: many, ..a_job() }).code, "bad_job");
    assert_eq!(refused(with_hints(&[("k", &"v".repeat(20_000))])).code, "bad_job");
    let big = with_env(json!({"x": "y".repeat(2 << 20)}));
    assert_eq!(refused(big).status.as_u16(), 413);
    for (id, said) in [("../x", "contains '/'"), ("", "is empty")] {
        let problem = refused(JobRequest { id: Some(id.into()), ..a_job() });
        assert!(problem.message.contains(said), "{problem}");
    }
    for home in ["home", "~", ""] {
        assert_eq!(refused(JobRequest { home: Some(home.into()), ..a_job() }).code, "bad_job");
    }
    assert!(refused(JobRequest { max_retries: Some(5000), ..a_job() }).message.contains("at most 1000"));
}

#[test]
fn a_preemptible_job_has_a_grace_and_any_job_may_have_one() {
    let job = |preemptible, stop_grace| JobRequest { preemptible, stop_grace, ..a_job() };
    let of = |job: JobRequest| {
        let checked = checked_alone(job);
        (checked.work.preemptible, checked.payload.stop_grace)
    };
    assert_eq!(of(job(false, None)), (false, None), "as its cluster does with every job");
    assert_eq!(of(job(true, None)), (true, Some(Span::seconds(30))));
    assert_eq!(of(job(true, Some(Span::minutes(10)))), (true, Some(Span::minutes(10))));
    assert_eq!(of(job(false, Some(Span(1)))), (false, Some(Span(1))), "a stop has it, too");
    let says_it_to_ray = with_env(json!({"env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": "120"}}));
    let says_it_to_ray = JobRequest { preemptible: true, ..says_it_to_ray };
    assert_eq!(of(says_it_to_ray), (true, None), "its own variable says it");
    let longest = job(true, Some(Span::minutes(24 * 60)));
    assert_eq!(of(longest), (true, Some(Span::minutes(24 * 60))));
    for (grace, shown) in [(Span::ZERO, "0s"), (Span(24 * 3_600_000 + 1), "86400001ms")] {
        let problem = refused(job(false, Some(grace)));
        assert_eq!(problem.code, "bad_job");
        assert_eq!(problem.message, format!("stop_grace is {shown}, not above 0 and up to 24h"));
        assert_eq!(problem.hint.as_deref(), Some("write 30s, 10m or 1h, or leave it out"));
    }
}

#[test]
fn exit_codes_that_cannot_be_meant_are_refused_with_what_to_do() {
    let job = |retries: u32, retry_on: &[i64], never_retry_on: &[i64]| JobRequest {
        max_retries: Some(retries),
        retry_on: retry_on.to_vec(),
        never_retry_on: never_retry_on.to_vec(),
        ..a_job()
    };
    let many: Vec<i64> = (0..33).collect();
    for (job, message, hint) in [
        (
            job(0, &[3], &[]),
            "retry_on is set, but max_retries is 0, so the job is never retried",
            "set max_retries, or leave retry_on out",
        ),
        (
            JobRequest { max_retries: None, ..job(0, &[], &[2]) },
            "never_retry_on is set, but max_retries is 0, so the job is never retried",
            "set max_retries, or leave never_retry_on out",
        ),
        (
            job(1, &[3, 2], &[2]),
            "exit code 2 is in retry_on and in never_retry_on",
            "remove it from one of them",
        ),
        (
            job(1, &[256], &[]),
            "retry_on: 256 is not an exit code",
            "use 0 to 255, or -1 to -64 for the number of the signal that ended it",
        ),
        (
            job(1, &[], &[-65]),
            "never_retry_on: -65 is not an exit code",
            "use 0 to 255, or -1 to -64 for the number of the signal that ended it",
        ),
        (job(1, &many, &[]), "retry_on: more than 32 exit codes", "list only the codes that matter"),
    ] {
        let problem = refused(job);
        assert_eq!((problem.code, problem.message.as_str()), ("bad_job", message));
        assert_eq!(problem.hint.as_deref(), Some(hint));
    }
    assert_eq!(checked_alone(job(1, &[], &[])).work.retry.codes, None, "empty lists allow everything");
}
