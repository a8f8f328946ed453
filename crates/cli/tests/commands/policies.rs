//! `policies` and its verbs.

use crate::{shows, world::World};

const TO_CENTOS: [&str; 4] = ["--expression", "cluster == 'centos' ? 1.0 : 0.0", "--weight", "50"];

#[test]
fn policies_are_listed_set_and_removed_and_survive_a_restart() {
    let mut world = World::new();
    shows!("policies-set", world.ok(&[["policies", "set", "to_centos"].as_slice(), &TO_CENTOS].concat()));
    shows!(
        "policies-set.json",
        world.ok(&["policies", "set", "small", "--filter", "cpu <= 4.0", "-o", "json"])
    );
    world.restart();
    shows!("policies", world.ok(&["policies"]));
    shows!("policies.json", world.ok(&["policies", "list", "-o", "json"]));
    shows!("policies-remove", world.ok(&["policies", "remove", "small"]));
    assert_eq!(world.json(&["policies", "remove", "to_centos"])["items"].as_array().unwrap().len(), 2);
    let told = world.ok(&["events"]);
    let told: Vec<_> = told.lines().filter(|line| line.contains("policy")).collect();
    assert_eq!(told.len(), 4, "{told:#?}");
    assert!(
        told[0].ends_with("to_centos  registered: expression cluster == 'centos' ? 1.0 : 0.0, weight 50")
    );
}

#[test]
fn policies_that_cannot_be_changed_so_are_refused_with_what_to_do() {
    let world = World::new();
    shows!("policies-set.error", world.fails(2, &["policies", "set", "mine", "--expression", "fre_cpu"]));
    shows!("policies-remove.error", world.fails(4, &["policies", "remove", "score"]));
    assert!(world.fails(3, &["policies", "remove", "none"]).contains("there are score"));
    let both = ["policies", "set", "mine", "--expression", "1.0", "--filter", "true"];
    assert!(world.fails(2, &both).contains("cannot be used with"));
}

#[test]
fn a_policy_is_tried_on_a_job_and_on_the_last_decisions() {
    let world = World::new().with_a_job_that_waits();
    for id in ["a", "b"] {
        world.ok(&["submit", "--submission-id", id, "--needs", "cpu=1", "--", "true"]);
    }
    let attempt = ["policies", "try", "to_centos"];
    let two = world.ok(&[&attempt, TO_CENTOS.as_slice(), &["--last", "5"]].concat());
    assert!(two.starts_with("2 of 2 decisions would differ\n\nJOB  WENT TO  NOW  THEN\n"), "{two}");
    let one = world.ok(&[&attempt, TO_CENTOS.as_slice(), &["--job", "a"]].concat());
    assert!(one.starts_with("it would go to mac now, and go to centos then\n\nnow:\n"), "{one}");
    assert!(one.contains("to_centos 1.00"), "{one}");
    let tried = world.json(&[&attempt, TO_CENTOS.as_slice()].concat());
    assert_eq!(tried["items"].as_array().unwrap().len(), 2);
    let without = world.json(&["policies", "try", "score", "--remove", "--job", "a"]);
    assert_eq!(without["items"][0]["then"]["clusters"][0]["parts"].as_array().unwrap().len(), 1);
    assert_eq!(world.json(&["policies"])["items"].as_array().unwrap().len(), 2, "nothing changed");
}
