//! `clusters` and its verbs.

use crate::{shows, world::World};

#[test]
fn clusters_are_listed() {
    let world = World::new();
    shows!("clusters", world.ok(&["clusters"]));
    shows!("clusters.json", world.ok(&["clusters", "-o", "json"]));
    assert!(
        world.fails(5, &["clusters", "--address", "127.0.0.1:1"]).contains("cannot reach a control plane")
    );
}

#[test]
fn clusters_come_and_go() {
    let world = World::new();
    let (url, add) =
        (world.centos.url(), "clusters add gpu --head-address 127.0.0.1:1 --tag cuda --weight 3");
    let add: Vec<_> = add
        .split(' ')
        .chain(["--dashboard", &url, "--set", "prefer=true", "--set", "submission_interval=5s"])
        .collect();
    shows!("clusters-add", world.ok(&add));
    shows!("clusters-add.error", world.fails(4, &add));
    let added = world.json(&["clusters"])["items"][3].clone();
    assert_eq!(
        (&added["name"], &added["weight"], &added["prefer"]),
        (&"gpu".into(), &3.0.into(), &true.into())
    );
    assert_eq!(added["limits"]["submission_interval_seconds"], 5.0);
    assert!(
        world
            .fails(2, &["clusters", "add", "x", "--head-address", "h:1", "--dashboard", "ftp://h"])
            .contains("hint: ")
    );
    shows!("clusters-remove", world.ok(&["clusters", "remove", "gpu"]));
    shows!("clusters-remove.json", world.ok(&["clusters", "remove", "lab", "--force", "-o", "json"]));
    shows!("clusters-remove.error", world.fails(3, &["clusters", "remove", "gpu"]));
}

#[test]
fn clusters_are_closed_and_opened() {
    let world = World::new();
    shows!("clusters-cordon", world.ok(&["clusters", "cordon", "mac", "--note", "disk swap"]));
    let cordoned = world.json(&["clusters"])["items"][1].clone();
    assert_eq!((&cordoned["cordoned"], &cordoned["draining"]), (&"disk swap".into(), &false.into()));
    shows!("clusters-drain", world.ok(&["clusters", "drain", "mac", "--note", "move"]));
    shows!("clusters-cordoned", world.ok(&["status"]));
    shows!("clusters-uncordon", world.ok(&["clusters", "uncordon", "mac"]));
    shows!("clusters-cordon.json", world.ok(&["clusters", "cordon", "mac", "-o", "json"]));
    shows!("clusters-drain.json", world.ok(&["clusters", "drain", "mac", "-o", "json"]));
    shows!("clusters-uncordon.json", world.ok(&["clusters", "uncordon", "mac", "-o", "json"]));
    for verb in ["cordon", "uncordon", "drain"] {
        assert!(world.fails(3, &["clusters", verb, "moc"]).contains("hint: there are centos, lab, mac"));
    }
}

#[test]
fn a_cluster_is_shown_and_changed() {
    let world = World::new();
    shows!("clusters-show", world.ok(&["clusters", "show", "mac"]));
    shows!("clusters-show-lab", world.ok(&["clusters", "show", "lab"]));
    assert_eq!(world.json(&["clusters", "show", "mac"])["tags"], serde_json::json!(["macos"]));
    assert!(world.fails(3, &["clusters", "show", "moc"]).contains("hint: there are centos"));

    let update = ["clusters", "update", "lab", "--weight", "3", "--tag", "gpu", "--set", "prefer=true"];
    assert_eq!(world.ok(&update), "lab is changed\n");
    let lab = world.json(&["clusters", "show", "lab"]);
    assert_eq!((&lab["weight"], &lab["prefer"]), (&3.0.into(), &true.into()));
    assert_eq!(lab["tags"], serde_json::json!(["gpu"]));
    assert_eq!(lab["limits"]["submission_interval_seconds"], 40.0, "it was not named, so it stays");
    world.ok(&["clusters", "update", "lab", "--set", "submission_interval=null"]);
    let lab = world.json(&["clusters", "show", "lab"]);
    assert_eq!(lab["limits"]["submission_interval_seconds"], 0.0, "null is the default");
    shows!("clusters-update.error", world.fails(2, &["clusters", "update", "lab", "--set", "wieght=2"]));
    shows!("clusters-update-nothing.error", world.fails(2, &["clusters", "update", "lab"]));
    assert!(world.fails(3, &["clusters", "update", "moc", "--weight", "2"]).contains("moc"));
}

#[test]
fn a_drain_can_be_waited_for() {
    let world = World::new();
    let submit = ["submit", "--no-wait", "--submission-id", "runs", "--cluster", "centos", "--", "sleep 2"];
    world.ok(&submit);
    world.until(&["job", "runs"], |job| job["state"] == "running");
    let done = world.run(&["clusters", "drain", "centos", "--wait"]);
    assert_eq!((done.code, done.out.as_str()), (Some(0), "centos is drained: no job is left on it\n"));
    assert_eq!(done.err, "centos is draining; 1 job on it\n");
    assert_eq!(world.json(&["job", "runs"])["state"], "succeeded");
    assert_eq!(
        world.ok(&["clusters", "drain", "mac", "--wait"]),
        "mac is drained: no job is left on it\n",
        "it was empty"
    );
}

#[test]
fn check_waits_for_fresh_facts() {
    let world = World::new();
    world.centos.occupy(&[("CPU", 6.0)]);
    shows!("clusters-check", world.ok(&["clusters", "check", "centos"]));
    let checked = world.ok(&["clusters", "check", "centos", "mac", "-o", "json"]);
    assert!(checked.contains("\"CPU\": 6"), "{checked}");
    shows!("clusters-check.json", checked);
    assert!(world.fails(3, &["clusters", "check", "moc"]).contains("moc"));
    shows!("clusters-check.error", world.fails(1, &["clusters", "check", "lab"]));
}
