//! Whole requests for the two clusters of the design.

mod merge;
mod paths;

use multicluster_types::{ClusterName, Secret, Span};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::redact::redact_cluster;

const SHA: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
const OTHER_SHA: &str = "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100";

pub(crate) fn env(value: Value) -> RuntimeEnv {
    match value {
        Value::Object(env) => env,
        other => panic!("not a runtime_env: {other}"),
    }
}

fn cluster(name: &str, runtime_env: Value) -> ClusterSpec {
    let mut spec = ClusterSpec::new(ClusterName::new(name).unwrap(), "h:10001", "http://h:8265");
    spec.runtime_env = Arc::new(env(runtime_env));
    spec
}

fn centos() -> ClusterSpec {
    cluster(
        "centos",
        json!({"conda": "ts", "env_vars": {
            "home_dir": "/home/zorro/",
            "PYTHONPATH": "/home/zorro/project/quant:/home/zorro/project/common:${PYTHONPATH}",
        }}),
    )
}

fn mac() -> ClusterSpec {
    let mut mac = cluster("mac", json!({"conda": "k8s", "env_vars": {"home_dir": "/Users/zorro/"}}));
    mac.plane_address = Some("http://192.168.5.1:8700".into());
    mac
}

fn homes() -> Vec<Arc<str>> {
    [centos(), mac()].iter().filter_map(|spec| spec.home().map(Into::into)).collect()
}

fn sdk() -> SdkPackage {
    SdkPackage { name: "ray_multicluster_scheduler.zip".to_owned(), sha256: OTHER_SHA.to_owned() }
}

/// Resolves for this cluster, in the pool of the design.
fn on(cluster: &ClusterSpec, payload: &Payload) -> Result<Resolved, ResolveError> {
    let (homes, sdk, job) = (homes(), sdk(), JobId::new("job-1").unwrap());
    let context = Context {
        cluster,
        homes: &homes,
        job: &job,
        attempt: Attempt(2),
        plane_id: "plane-1",
        submitted_at: Timestamp(1_700_000_000_123),
        sdk: Some(&sdk),
        traceparent: payload.traceparent.as_deref(),
    };
    resolve(&context, payload)
}

fn runtime_env_on(cluster: &ClusterSpec, runtime_env: Value) -> Value {
    let payload = Payload { runtime_env: env(runtime_env), ..Payload::default() };
    Value::Object(on(cluster, &payload).unwrap().runtime_env)
}

fn a_payload() -> Payload {
    Payload {
        entrypoint: "python /home/zorro/project/quant/run.py --out=\"/home/zorro/my out\"".to_owned(),
        runtime_env: env(json!({
            "working_dir": "gcs://_ray_pkg_0011223344556677.zip",
            "env_vars": {"DATA": "/home/zorro/data:/mnt/data", "N": 4, "DEBUG": true},
        })),
        metadata: BTreeMap::from([
            ("owner".to_owned(), "zorro".to_owned()),
            ("multicluster.preferred_cluster".to_owned(), "mac".to_owned()),
            ("multicluster.job_id".to_owned(), "forged".to_owned()),
        ]),
        packages: BTreeMap::from([("gcs://_ray_pkg_0011223344556677.zip".to_owned(), SHA.to_owned())]),
        ..Payload::default()
    }
}

#[test]
fn secret_variables_reach_ray_and_nobody_else() {
    let mut mac = mac();
    mac.secret_vars = ["DB", "MINE"].map(|name| (name.to_owned(), Secret::new("hunter2"))).into();
    let job = || json!({"env_vars": {"MINE": "is my own"}});
    let sent = runtime_env_on(&mac, job());
    assert_eq!(
        (&sent["env_vars"]["DB"], &sent["env_vars"]["MINE"]),
        (&json!("hunter2"), &json!("is my own"))
    );
    let shown = runtime_env_on(&redact_cluster(&mac), job());
    assert_eq!(
        (&shown["env_vars"]["DB"], &shown["env_vars"]["MINE"]),
        (&json!("<redacted>"), &json!("is my own"))
    );
}

#[test]
fn a_job_written_for_centos_runs_on_the_mac() {
    let resolved = on(&mac(), &a_payload()).unwrap();
    assert_eq!(resolved.entrypoint, "python /Users/zorro/project/quant/run.py --out=\"/Users/zorro/my out\"");
    assert_eq!(resolved.submission_id.as_str(), "job-1-a2");
    assert_eq!(
        Value::Object(resolved.runtime_env),
        json!({
            "conda": "k8s",
            "working_dir": "gcs://_ray_pkg_00112233445566778899aabbccddeeff.zip",
            "env_vars": {
                "home_dir": "/Users/zorro/",
                "DATA": "/Users/zorro/data:/mnt/data",
                "N": "4",
                "DEBUG": "true",
                "RAY_MULTICLUSTER_CURRENT_CLUSTER": "mac",
                "RAY_MULTICLUSTER_JOB_ID": "job-1",
                "RAY_MULTICLUSTER_ATTEMPT": "2",
                "RAY_MULTICLUSTER_VERSION": env!("CARGO_PKG_VERSION"),
                "RAY_MULTICLUSTER_ADDRESS": "http://192.168.5.1:8700",
            },
        })
    );
    let name = "_ray_pkg_00112233445566778899aabbccddeeff.zip".to_owned();
    assert_eq!(resolved.packages, [PushedPackage { name, sha256: SHA.to_owned() }]);
}

#[test]
fn a_grace_becomes_rays_variable_unless_the_job_sets_that_itself() {
    let patient = cluster("patient", json!({"env_vars": {"RAY_JOB_STOP_WAIT_TIME_S": "5"}}));
    let wait = |cluster: &ClusterSpec, stop_grace: Option<Span>, own: Value| {
        let runtime_env = env(json!({"env_vars": own}));
        let payload = Payload { runtime_env, stop_grace, ..Payload::default() };
        on(cluster, &payload).unwrap().runtime_env["env_vars"].get("RAY_JOB_STOP_WAIT_TIME_S").cloned()
    };
    let ten = Some(Span::minutes(10));
    assert_eq!(wait(&mac(), None, json!({})), None);
    assert_eq!(wait(&mac(), ten, json!({})), Some(json!("600")));
    assert_eq!(wait(&mac(), Some(Span(1)), json!({})), Some(json!("1")), "rounded up: 0 would be none");
    assert_eq!(wait(&mac(), Some(Span(1_001)), json!({})), Some(json!("2")));
    assert_eq!(wait(&patient, None, json!({})), Some(json!("5")));
    assert_eq!(wait(&patient, ten, json!({})), Some(json!("600")), "the job goes before its cluster");
    let own = || json!({"RAY_JOB_STOP_WAIT_TIME_S": 7});
    assert_eq!(wait(&patient, ten, own()), Some(json!("7")), "its own variable goes before everything");
    let removed = json!({"RAY_JOB_STOP_WAIT_TIME_S": null});
    assert_eq!(wait(&patient, None, removed.clone()), None);
    assert_eq!(wait(&patient, ten, removed), Some(json!("600")));
}

#[test]
fn on_its_own_cluster_a_job_keeps_its_paths() {
    let resolved = on(&centos(), &a_payload()).unwrap();
    assert_eq!(resolved.entrypoint, a_payload().entrypoint);
    let variables = &resolved.runtime_env["env_vars"];
    assert_eq!(variables["DATA"], "/home/zorro/data:/mnt/data");
    assert_eq!(variables["PYTHONPATH"], "/home/zorro/project/quant:/home/zorro/project/common:${PYTHONPATH}");
    assert_eq!(variables.get("RAY_MULTICLUSTER_ADDRESS"), None, "it cannot be reached from there");
}

#[test]
fn a_job_from_a_laptop_has_its_home_translated() {
    let payload = Payload {
        entrypoint: "python /Users/ann/quant/run.py".to_owned(),
        home: Some("/Users/ann/".to_owned()),
        ..Payload::default()
    };
    assert_eq!(on(&centos(), &payload).unwrap().entrypoint, "python /home/zorro/quant/run.py");
    let nobody = Payload { home: None, ..payload };
    assert_eq!(on(&centos(), &nobody).unwrap().entrypoint, "python /Users/ann/quant/run.py");
}

#[test]
fn a_cluster_whose_home_nobody_knows_gets_paths_as_they_are() {
    let resolved = on(&cluster("gpu", json!({})), &a_payload()).unwrap();
    assert_eq!(resolved.entrypoint, a_payload().entrypoint);
    assert_eq!(resolved.runtime_env["env_vars"]["DATA"], "/home/zorro/data:/mnt/data");
}

#[test]
fn a_job_cannot_say_it_is_elsewhere() {
    let forged = json!({"env_vars": {
        "RAY_MULTICLUSTER_CURRENT_CLUSTER": "centos", "RAY_MULTICLUSTER_JOB_ID": "x",
        "RAY_MULTICLUSTER_ATTEMPT": "9", "RAY_MULTICLUSTER_ADDRESS": "http://evil",
    }});
    let variables = &runtime_env_on(&mac(), forged)["env_vars"];
    assert_eq!(variables["RAY_MULTICLUSTER_CURRENT_CLUSTER"], "mac");
    assert_eq!(variables["RAY_MULTICLUSTER_JOB_ID"], "job-1");
    assert_eq!(variables["RAY_MULTICLUSTER_ATTEMPT"], "2");
    assert_eq!(variables["RAY_MULTICLUSTER_ADDRESS"], "http://192.168.5.1:8700");
}

#[test]
fn a_run_carries_whose_it_is_whatever_the_caller_wrote() {
    let metadata = on(&mac(), &a_payload()).unwrap().metadata;
    let shown: Vec<_> = metadata.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(
        shown,
        [
            "multicluster.attempt=2",
            "multicluster.cluster=mac",
            "multicluster.job_id=job-1",
            "multicluster.life=1700000000123",
            "multicluster.plane=plane-1",
            "multicluster.preferred_cluster=mac",
            "owner=zorro",
        ]
    );
    let ownership = Ownership {
        job: JobId::new("job-1").unwrap(),
        attempt: Attempt(2),
        plane: "plane-1".to_owned(),
        life: Timestamp(1_700_000_000_123),
    };
    assert_eq!(Ownership::parse(&metadata), Some(ownership));
    for (name, value) in [
        ("multicluster.attempt", "0"),
        ("multicluster.attempt", "+2"),
        ("multicluster.attempt", "99999999999"),
        ("multicluster.attempt", ""),
        ("multicluster.job_id", "../x"),
        ("multicluster.life", "-1"),
    ] {
        let mut damaged = metadata.clone();
        damaged.insert(name.to_owned(), value.to_owned());
        assert_eq!(Ownership::parse(&damaged), None, "{name}={value}");
    }
    assert_eq!(Ownership::parse(&BTreeMap::new()), None);
}

#[test]
fn packages_are_named_by_their_content() {
    let digits = &SHA[..32];
    for (uri, expected) in [
        ("gcs://x.zip", Ok(format!("_ray_pkg_{digits}.zip"))),
        ("gcs://x.tar.gz", Ok(format!("_ray_pkg_{digits}.tar.gz"))),
        ("gcs://x.jar", Ok(format!("_ray_pkg_{digits}.jar"))),
        ("gcs://../../x.zip", Ok(format!("_ray_pkg_{digits}.zip"))),
        (
            "gcs://quant_lib-1.2+cu12-py3-none-any.whl",
            Ok(format!("quant_lib-1.2+cu12-0_{digits}-py3-none-any.whl")),
        ),
        (
            "gcs://quant-1.2-7-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
            Ok(format!("quant-1.2-7_{digits}-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl")),
        ),
        ("gcs://x.whl", Err(())),
        ("gcs://a/b-1-py3-none-any.whl", Err(())),
        ("gcs://a-1-b-py3-none-any.whl", Err(())),
        ("gcs://noextension", Err(())),
        ("gcs://", Err(())),
    ] {
        let payload = Payload {
            runtime_env: env(json!({"py_modules": [uri]})),
            packages: BTreeMap::from([(uri.to_owned(), SHA.to_uppercase())]),
            ..Payload::default()
        };
        match (on(&centos(), &payload), expected) {
            (Ok(resolved), Ok(name)) => {
                assert_eq!(resolved.runtime_env["py_modules"], json!([format!("gcs://{name}")]));
                assert_eq!(resolved.packages, [PushedPackage { name, sha256: SHA.to_owned() }]);
            }
            (Err(ResolveError::BadPackage { .. }), Err(())) => {}
            (got, expected) => panic!("{uri}: {got:?}, not {expected:?}"),
        }
    }
}

#[test]
fn only_our_packages_are_renamed_and_each_is_pushed_once() {
    let mut payload = a_payload();
    payload.packages.insert("gcs://same_content.zip".to_owned(), SHA.to_owned());
    payload.packages.insert("gcs://not_used.zip".to_owned(), OTHER_SHA.to_owned());
    payload.packages.insert("s3://bucket/x.zip".to_owned(), OTHER_SHA.to_owned());
    payload.runtime_env.insert(
        "py_modules".to_owned(),
        json!([
            "gcs://_ray_pkg_0011223344556677.zip",
            "gcs://same_content.zip",
            "gcs://theirs.zip",
            "s3://bucket/x.zip"
        ]),
    );
    let resolved = on(&centos(), &payload).unwrap();
    let ours = "gcs://_ray_pkg_00112233445566778899aabbccddeeff.zip";
    assert_eq!(resolved.runtime_env["py_modules"], json!([ours, "gcs://theirs.zip", "s3://bucket/x.zip"]));
    assert_eq!(resolved.runtime_env["working_dir"], json!(ours));
    assert_eq!(resolved.packages.len(), 1);
}

#[test]
fn packages_stand_for_folders_that_the_job_or_its_cluster_names() {
    let cluster_env = json!({"working_dir": "/Users/zorro/quant/", "py_modules": ["lib", "/opt/lib", "~/x"],
        "env_vars": {"home_dir": "/Users/zorro/", "QUANT": "/Users/zorro/quant"}});
    let mac = ClusterSpec { runtime_env: Arc::new(env(cluster_env)), ..mac() };
    let folders = [
        ("/Users/zorro/quant", "gcs://quant.zip"),
        ("lib", "gcs://lib.zip"),
        ("/home/zorro/own", "gcs://own.zip"),
        ("/Users/zorro/other", "gcs://not_used.zip"),
    ];
    let digest = |n: usize| format!("{n:0<64}");
    let payload = Payload {
        // Below another cluster's home: if paths were translated first, the folder would not be
        // found.
        runtime_env: env(json!({"py_modules": ["/home/zorro/own//", "/home/zorro/there"]})),
        folders: folders.map(|(path, uri)| (path.to_owned(), uri.to_owned())).into(),
        packages: (0..).zip(folders).map(|(n, (_, uri))| (uri.to_owned(), digest(n))).collect(),
        ..Payload::default()
    };
    let uri = |n: usize| format!("gcs://_ray_pkg_{}.zip", &digest(n)[..32]);
    let resolved = on(&mac, &payload).unwrap();
    assert_eq!(resolved.runtime_env["working_dir"], json!(uri(0)));
    let modules = json!([uri(1), "/opt/lib", "~/x", uri(2), "/Users/zorro/there"]);
    assert_eq!(resolved.runtime_env["py_modules"], modules);
    assert_eq!(resolved.runtime_env["env_vars"]["QUANT"], "/Users/zorro/quant", "it is no folder to bring");
    let pushed: Vec<_> = resolved.packages.iter().map(|package| package.sha256.clone()).collect();
    assert_eq!(pushed, [digest(0), digest(1), digest(2)]);

    let own = Payload { runtime_env: env(json!({"working_dir": "gcs://lib.zip"})), ..payload.clone() };
    assert_eq!(on(&mac, &own).unwrap().runtime_env["working_dir"], json!(uri(1)), "the job's counts");
    let nowhere = Payload { folders: BTreeMap::new(), ..payload };
    assert_eq!(on(&mac, &nowhere).unwrap().runtime_env["working_dir"], "/Users/zorro/quant/");
}

#[test]
fn a_damaged_record_of_a_package_is_told() {
    for damaged in ["", "abc", &"z".repeat(64), &"é".repeat(32)] {
        let mut payload = a_payload();
        payload.packages.values_mut().for_each(|sha| *sha = damaged.to_owned());
        assert!(matches!(on(&mac(), &payload), Err(ResolveError::BadDigest { .. })), "{damaged}");
    }
}

#[test]
fn a_cluster_without_the_sdk_is_given_it() {
    let mut mac = mac();
    let mut payload = a_payload();
    payload.runtime_env.insert("py_modules".to_owned(), json!(["s3://b/x.zip"]));
    assert_eq!(on(&mac, &payload).unwrap().runtime_env["py_modules"], json!(["s3://b/x.zip"]));

    mac.inject_sdk = Some(true);
    let uri = format!("gcs://_ray_pkg_{}.zip", &OTHER_SHA[..32]);
    let resolved = on(&mac, &payload).unwrap();
    assert_eq!(resolved.runtime_env["py_modules"], json!([uri, "s3://b/x.zip"]));
    assert_eq!(resolved.packages.len(), 2);
    payload.runtime_env.remove("py_modules");
    assert_eq!(on(&mac, &payload).unwrap().runtime_env["py_modules"], json!([uri]));

    // Ray refuses `py_modules` beside an image.
    let imaged = runtime_env_on(&mac, json!({"image_uri": "repo/image"}));
    assert_eq!(imaged.get("py_modules"), None);
    payload.runtime_env.insert("py_modules".to_owned(), json!("x"));
    let error = on(&mac, &payload).unwrap_err().to_string();
    assert_eq!(error, "runtime_env.py_modules is a text, not a list\n  hint: write a list of URIs");
}

#[test]
fn a_job_finds_the_sdk_that_submitted_it_unless_its_cluster_says_no() {
    const BROUGHT: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    let package = |sha256: &str| format!("gcs://_ray_pkg_{}.zip", &sha256[..32]);
    let mut payload = a_payload();
    payload.packages.insert("gcs://_ray_pkg_sdk.zip".to_owned(), BROUGHT.to_owned());
    payload.sdk = Some("gcs://_ray_pkg_sdk.zip".to_owned());
    for (inject_sdk, found) in [(None, Some(BROUGHT)), (Some(true), Some(BROUGHT)), (Some(false), None)] {
        let mac = ClusterSpec { inject_sdk, ..mac() };
        let resolved = on(&mac, &payload).unwrap();
        let modules = found.map(|sha256| json!([package(sha256)]));
        assert_eq!(resolved.runtime_env.get("py_modules"), modules.as_ref(), "{inject_sdk:?}");
        let pushed = resolved.packages.iter().any(|package| package.sha256 == BROUGHT);
        assert_eq!(pushed, found.is_some(), "{inject_sdk:?}");
    }
    // Any other job: the control plane's own SDK, if the cluster asks for it.
    payload.sdk = None;
    for (inject_sdk, found) in [(None, None), (Some(true), Some(OTHER_SHA)), (Some(false), None)] {
        let mac = ClusterSpec { inject_sdk, ..mac() };
        let modules = found.map(|sha256| json!([package(sha256)]));
        assert_eq!(on(&mac, &payload).unwrap().runtime_env.get("py_modules"), modules.as_ref());
    }
}

#[test]
fn environment_variables_that_are_no_texts_are_told_without_their_value() {
    for (variables, message) in [
        (json!(["hunter2"]), "runtime_env.env_vars is a list, not a mapping"),
        (json!("hunter2"), "runtime_env.env_vars is a text, not a mapping"),
        (json!({"A": ["hunter2"]}), "runtime_env.env_vars.A is a list, not a text"),
        (json!({"A": {"hunter2": 1}}), "runtime_env.env_vars.A is a mapping, not a text"),
    ] {
        let payload = Payload { runtime_env: env(json!({"env_vars": variables})), ..Payload::default() };
        let error = on(&cluster("x", json!({})), &payload).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn what_the_entrypoint_reserves_is_passed_on() {
    let reserve = EntrypointResources { num_cpus: Some(2.0), memory: Some(1 << 30), ..Default::default() };
    let payload = Payload { reserve: reserve.clone(), ..a_payload() };
    assert_eq!(on(&mac(), &payload).unwrap().reserve, reserve);
}

/// Some JSON, as deep and odd as callers send it.
fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "(/home/zorro|/Users/zorro|gcs://x.zip|[a-z/:=$ ]){0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,3}|packages|pip", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

pub(crate) fn any_env() -> impl Strategy<Value = RuntimeEnv> {
    let field = prop_oneof![
        Just("env_vars"),
        Just("pip"),
        Just("uv"),
        Just("conda"),
        Just("working_dir"),
        Just("py_modules"),
        Just("config"),
        Just("image_uri"),
        Just("container"),
        Just("other"),
    ];
    prop::collection::btree_map(field, json_value(), 0..6)
        .prop_map(|env| env.into_iter().map(|(field, value)| (field.to_owned(), value)).collect())
}

proptest! {
    #[test]
    fn nothing_is_shared_between_two_clusters(
        base in any_env(), job in any_env(), entrypoint in r#"(/home/zorro|/Users/zorro|[a '"/=:\\$]){0,12}"#
    ) {
        let (a, b) = (centos(), ClusterSpec { runtime_env: Arc::new(base), ..mac() });
        let packages = BTreeMap::from([("gcs://x.zip".to_owned(), SHA.to_owned())]);
        let payload = Payload { entrypoint, runtime_env: job, packages, ..a_payload() };
        let (specs, kept) = ((a.clone(), b.clone()), payload.clone());
        let alone = on(&b, &payload);
        let _ = on(&a, &payload);
        prop_assert_eq!(on(&b, &payload), alone.clone());
        prop_assert_eq!((&a, &b, &payload), (&specs.0, &specs.1, &kept));
        // Ray requires this, whatever the input was.
        if let Ok(resolved) = alone {
            let variables = resolved.runtime_env["env_vars"].as_object().unwrap();
            prop_assert!(variables.values().all(Value::is_string));
            prop_assert!(!resolved.runtime_env.values().any(Value::is_null));
        }
    }

    #[test]
    fn only_what_the_job_itself_mixes_collides(base in any_env(), job in any_env()) {
        let collisions = |env: &RuntimeEnv| {
            let count = |fields: &[&str]| fields.iter().filter(|f| env.get(**f).is_some_and(|v| !v.is_null())).count();
            let beside = env.iter().filter(|(f, v)| !v.is_null() && !["env_vars", "config", "image_uri", "container"].contains(&f.as_str())).count();
            let images = count(&["image_uri", "container"]);
            (count(&["pip", "conda", "uv"]) > 1, images > 1 || (images > 0 && beside > 0))
        };
        let merged = super::merge::merge(&base, &job);
        let (installers, images) = collisions(&merged);
        // A cluster's own fields may collide with each other too; a job without these fields cannot
        // fix that.
        prop_assert!(!installers || collisions(&job).0 || collisions(&base).0);
        prop_assert!(!images || collisions(&job).1 || collisions(&base).1);
    }
}
