//! `replay`.

use crate::{shows, world::World};

#[test]
fn the_past_is_replayed_under_other_settings() {
    let world = World::new().with_a_job_that_waits();
    for id in ["a", "b", "c"] {
        // Long enough to be seen running.
        let job =
            ["--submission-id", id, "--cluster", "centos", "--entrypoint-num-cpus", "1", "--", "sleep 1"];
        world.ok(&[["submit", "--no-wait"].as_slice(), &job].concat());
    }
    world.until(&["jobs", "--state", "succeeded"], |jobs| jobs["items"].as_array().unwrap().len() == 3);
    let done = world.run(&["replay", "--set", "submission_interval=5s", "--set", "policies=pack"]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    shows!("replay.notes", done.err);
    shows!("replay", without_numbers(&done.out));
    let replayed = world.ok(&["replay", "--set", "submission_interval=5s", "-o", "json"]);
    shows!("replay.json", without_numbers(&replayed));
    let runs = serde_json::from_str::<serde_json::Value>(&replayed).unwrap()["runs"].clone();
    let labels: Vec<_> = runs.as_array().unwrap().iter().map(|run| run["label"].as_str().unwrap()).collect();
    assert_eq!(labels, ["as it was", "settings of now", "submission_interval=5s"]);
    for run in runs.as_array().unwrap() {
        assert_eq!(run["jobs"]["finished"], 3, "{run:#}");
        assert_eq!(run["clusters"][0]["jobs"], 3, "they wanted centos: {run:#}");
    }
    let closed = ["replay", "--set", "filter.closed=cpu > 100.0; submission_interval=0s"];
    let refused = world.json(&closed)["runs"][2].clone();
    assert_eq!(refused["jobs"]["finished"], 0, "a filter closes every cluster: {refused:#}");
    let bad = world.fails(2, &["replay", "--set", "expression.mine=fre_cpu"]);
    assert!(bad.contains("known names are cluster"), "{bad}");
    // Five seconds apart: the third starts ten seconds after the first.
    assert!(runs[2]["makespan_s"].as_f64().unwrap() >= 10.0, "{runs:#}");
    assert!(runs[1]["makespan_s"].as_f64().unwrap() < 10.0, "{runs:#}");
}

#[test]
fn what_cannot_be_replayed_is_told() {
    let world = World::new();
    shows!("replay.error", world.fails(3, &["replay", "--from", "2026-01-01", "--to", "2026-01-02"]));
    let told = world.fails(2, &["replay", "--set", "submision_interval=5s"]);
    assert!(told.contains("unknown setting") || told.contains("no job"), "{told}");
    assert!(world.fails(2, &["replay", "--since", "soon"]).contains("40s, 500ms, 5m"));
}

/// Numbers depend on the speed of this machine; their values are asserted where they matter.
fn without_numbers(text: &str) -> String {
    let is_number = |word: &str| word == "=" || word.trim_end_matches(',').parse::<f64>().is_ok();
    let words = |line: &str| {
        line.trim_start()
            .split(' ')
            .map(|word| if is_number(word) { "#" } else { word })
            .collect::<Vec<_>>()
            .join(" ")
    };
    text.lines().map(words).collect::<Vec<_>>().join("\n")
}
