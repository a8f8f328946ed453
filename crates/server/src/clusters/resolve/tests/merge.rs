//! Merges of a job's runtime_env with its cluster's.

use serde_json::{Value, json};

use super::{super::merge::merge, env, runtime_env_on};

fn merged(base: Value, job: Value) -> Value {
    Value::Object(merge(&env(base), &env(job)))
}

#[test]
fn fields_are_merged_by_their_kind() {
    for (base, job, expected) in [
        (json!({}), json!({}), json!({})),
        (json!({"a": 1}), json!({"b": 2}), json!({"a": 1, "b": 2})),
        (json!({"a": 1}), json!({"a": 2}), json!({"a": 2})),
        (
            json!({"config": {"setup_timeout_seconds": 60, "deep": {"x": 1, "y": 1}}}),
            json!({"config": {"eager_install": true, "deep": {"y": 2}}}),
            json!({"config": {"setup_timeout_seconds": 60, "eager_install": true, "deep": {"x": 1, "y": 2}}}),
        ),
        (
            json!({"excludes": ["b", "a", "b"]}),
            json!({"excludes": ["c", "a"]}),
            json!({"excludes": ["b", "a", "c"]}),
        ),
        (json!({"working_dir": "s3://b/x.zip"}), json!({"working_dir": "/y"}), json!({"working_dir": "/y"})),
        (
            json!({"py_modules": ["s3://a"]}),
            json!({"py_modules": ["s3://b"]}),
            json!({"py_modules": ["s3://a", "s3://b"]}),
        ),
        // If the types differ, the job's value wins.
        (json!({"config": {"a": 1}}), json!({"config": "x"}), json!({"config": "x"})),
        (json!({"a": ["x"]}), json!({"a": {"y": 1}}), json!({"a": {"y": 1}})),
        // A job removes values with `null`.
        (json!({"conda": "ts", "a": 1}), json!({"conda": null}), json!({"a": 1})),
        (
            json!({"env_vars": {"A": "1", "B": "2"}}),
            json!({"env_vars": {"A": null}}),
            json!({"env_vars": {"B": "2"}}),
        ),
        (json!({"conda": null}), json!({}), json!({})),
        (json!({}), json!({"conda": null}), json!({})),
    ] {
        let shown = format!("{base} + {job}");
        assert_eq!(merged(base, job), expected, "{shown}");
    }
}

#[test]
fn requirements_are_united_in_whichever_form_they_are_written() {
    for (base, job, expected) in [
        (json!(["a", "b"]), json!(["b", "c"]), json!(["a", "b", "c"])),
        (
            json!(["a"]),
            json!({"packages": ["b"], "pip_check": true}),
            json!({"packages": ["a", "b"], "pip_check": true}),
        ),
        (
            json!({"packages": ["a"], "pip_version": "==24"}),
            json!(["b"]),
            json!({"packages": ["a", "b"], "pip_version": "==24"}),
        ),
        (
            json!({"packages": ["a"], "pip_install_options": ["--index-url", "https://a"]}),
            json!({"packages": ["b"], "pip_install_options": ["--index-url", "https://b"]}),
            json!({"packages": ["a", "b"], "pip_install_options": ["--index-url", "https://b"]}),
        ),
        // One package, two versions: pip would refuse both.
        (json!(["numpy==1.26", "pandas"]), json!(["NumPy==2.0"]), json!(["pandas", "NumPy==2.0"])),
        (
            json!(["typing-extensions>=4"]),
            json!(["typing_extensions==4.9"]),
            json!(["typing_extensions==4.9"]),
        ),
        (
            json!(["-r /x/requirements.txt", "a"]),
            json!(["a", "b"]),
            json!(["-r /x/requirements.txt", "a", "b"]),
        ),
        // A file on the cluster cannot be merged.
        (json!("/etc/requirements.txt"), json!(["a"]), json!(["a"])),
        (json!(["a"]), json!("/etc/requirements.txt"), json!("/etc/requirements.txt")),
        (json!(["a"]), json!({"packages": "/r.txt"}), json!({"packages": "/r.txt"})),
    ] {
        let shown = format!("{base} + {job}");
        assert_eq!(merged(json!({"pip": base}), json!({"pip": job})), json!({"pip": expected}), "{shown}");
    }
}

#[test]
fn conda_environments_that_are_spelled_out_are_united_too() {
    let base = json!({"conda": {"channels": ["defaults"], "dependencies": ["python=3.10", "numpy", {"pip": ["a==1", "b"]}]}});
    let job = json!({"conda": {"channels": ["conda-forge"], "dependencies": ["numpy=1.26", {"pip": ["a==2"]}, "pandas"]}});
    assert_eq!(
        merged(base.clone(), job),
        json!({"conda": {
            "channels": ["defaults", "conda-forge"],
            "dependencies": ["python=3.10", {"pip": ["b", "a==2"]}, "numpy=1.26", "pandas"],
        }})
    );
    assert_eq!(merged(base, json!({"conda": "k8s"})), json!({"conda": "k8s"}));
    let only_job = json!({"conda": {"dependencies": [{"pip": ["x"]}]}});
    assert_eq!(merged(json!({"conda": {"dependencies": []}}), only_job.clone()), only_job);
}

#[test]
fn where_ray_allows_one_installer_the_jobs_wins() {
    for installer in ["pip", "uv"] {
        let job = json!({installer: ["a"]});
        assert_eq!(merged(json!({"conda": "ts", "x": 1}), job), json!({installer: ["a"], "x": 1}));
        assert_eq!(merged(json!({installer: ["a"]}), json!({"conda": "ts"})), json!({"conda": "ts"}));
    }
    assert_eq!(merged(json!({"pip": ["a"]}), json!({"uv": ["b"]})), json!({"uv": ["b"]}));
    // A `null` collides with nothing.
    assert_eq!(merged(json!({"conda": "ts"}), json!({"pip": null})), json!({"conda": "ts"}));
    // A collision within the job's own runtime_env is left for Ray to refuse.
    let both = json!({"pip": ["a"], "conda": "x"});
    assert_eq!(merged(json!({"conda": "ts"}), both.clone()), both);
}

#[test]
fn where_ray_allows_nothing_beside_an_image_the_job_wins() {
    let base = json!({"conda": "ts", "working_dir": "s3://x", "env_vars": {"A": "1"}, "config": {"c": 1}});
    for image in ["image_uri", "container"] {
        assert_eq!(
            merged(base.clone(), json!({image: "i"})),
            json!({image: "i", "env_vars": {"A": "1"}, "config": {"c": 1}})
        );
        assert_eq!(merged(json!({image: "i"}), json!({"pip": ["a"]})), json!({"pip": ["a"]}));
        assert_eq!(
            merged(json!({image: "i"}), json!({"env_vars": {"A": "1"}})),
            json!({image: "i", "env_vars": {"A": "1"}})
        );
    }
    assert_eq!(merged(json!({"image_uri": "i"}), json!({"image_uri": "j"})), json!({"image_uri": "j"}));
    assert_eq!(
        merged(json!({"container": {"image": "i"}}), json!({"image_uri": "j"})),
        json!({"image_uri": "j"})
    );
}

#[test]
fn a_clusters_variables_become_texts_too() {
    // A cluster registered over HTTP, rather than from a file.
    let cluster = super::cluster("x", json!({"env_vars": {"N": 3, "F": 0.5, "T": true, "NONE": null}}));
    let variables = &runtime_env_on(&cluster, json!({}))["env_vars"];
    assert_eq!(
        (&variables["N"], &variables["F"], &variables["T"]),
        (&json!("3"), &json!("0.5"), &json!("true"))
    );
    assert_eq!(variables.get("NONE"), None);
}

#[test]
fn long_lists_are_united_in_no_time() {
    let list = |from: u32| (from..from + 100_000).map(|n| json!(format!("p{n}"))).collect::<Vec<_>>();
    let merged =
        merged(json!({"pip": list(0), "x": list(0)}), json!({"pip": list(50_000), "x": list(50_000)}));
    assert_eq!(merged["pip"].as_array().unwrap().len(), 150_000);
    assert_eq!(merged["x"].as_array().unwrap().len(), 150_000);
}
