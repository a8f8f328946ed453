//! `config check`.

use std::fs;

use multicluster_testkit::{FakeOptions, FakeRay};

use crate::{shows, world::World};

#[test]
fn a_file_is_checked_and_its_clusters_are_asked() {
    let world = World::new();
    shows!("config-check", world.ok(&["config", "check", "--offline"]));
    shows!("config-check.json", world.ok(&["config", "check", "cluster.yaml", "--offline", "-o", "json"]));
    // A listener at the head address of the healthy cluster.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let head = listener.local_addr().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let locked = runtime.block_on(FakeRay::start(FakeOptions::new("locked").token("s3cret")));
    let config = format!(
        "clusters:
  - {{name: well, head_address: '{head}', dashboard: '{}'}}
  - {{name: locked, head_address: '{head}', dashboard: '{}', token: wrong}}
  - {{name: gone, head_address: '127.0.0.1:1', dashboard: 'http://127.0.0.1:1'}}
",
        world.centos.url(),
        locked.url()
    );
    fs::write(world.dir.join("probed.yaml"), config).unwrap();
    let done = world.run(&["config", "check", "probed.yaml"]);
    assert_eq!(done.code, Some(1), "{}", done.err);
    shows!("config-check-probed", done.out);
    shows!("config-check-probed.error", done.err);
    let done = world.run(&["config", "check", "probed.yaml", "-o", "json"]);
    shows!("config-check-probed.json", done.out);
}

#[test]
fn shares_are_checked_with_the_rest() {
    let world = World::new();
    let clusters = fs::read_to_string(world.dir.join("cluster.yaml")).unwrap();
    let check = |shares: &str| {
        fs::write(world.dir.join("shared.yaml"), format!("{clusters}\n{shares}\n")).unwrap();
        world.run(&["config", "check", "shared.yaml", "--offline"])
    };
    let good = check("shares: {owners: {research: {weight: 3, members: [ann]}, trading: {}}}");
    assert!(good.out.trim_end().ends_with("2 shares)"), "{} {}", good.out, good.err);
    let bad = check("shares: {owners: {research: {weight: 0}}}");
    assert_eq!(bad.code, Some(2));
    assert!(bad.err.contains("weight 0 is not usable") && bad.err.contains("hint: "), "{}", bad.err);
}

#[test]
fn cluster_files_are_checked_with_the_file_that_names_them() {
    let world = World::new();
    let clusters = fs::read_to_string(world.dir.join("cluster.yaml")).unwrap();
    let found = world.dir.join("found.d");
    fs::create_dir(&found).unwrap();
    fs::write(world.dir.join("files.yaml"), format!("{clusters}cluster_files: [found.d/*.yaml]\n")).unwrap();
    let put = |file: &str, name: &str, more: &str| {
        let cluster = format!("name: {name}, head_address: '127.0.0.1:1', dashboard: 'http://127.0.0.1:1'");
        fs::write(found.join(file), format!("clusters:\n  - {{{cluster}{more}}}\n")).unwrap();
    };
    let check = ["config", "check", "files.yaml", "--offline"];
    assert!(world.run(&check).err.contains("warning: found.d/*.yaml: no file matches"));
    put("a.yaml", "lab-2", "");
    assert_eq!(world.ok(&check), "files.yaml: valid (4 clusters, 1 of them in 1 cluster file)\n");
    assert_eq!(world.json(&check)["cluster_files"], serde_json::json!(["found.d/a.yaml"]));
    put("b.yaml", "lab", ", wieght: 3");
    put("c.yaml", "lab-2", "");
    fs::create_dir(found.join("d.yaml")).unwrap();
    shows!("config-check-files.error", world.fails(2, &check));
    let done = world.run(&[&check[..], &["-o", "json"]].concat());
    let told: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!((&told["ok"], &told["errors"][0]["line"]), (&false.into(), &2.into()));
    assert_eq!(told["errors"][0]["origin"], "found.d/b.yaml");
}

#[test]
fn mistakes_are_shown_with_line_and_hint() {
    let world = World::new();
    let text = "clusters:\n  - {name: mac, head_address: '127.0.0.1:1', dashbord: 'http://127.0.0.1:1'}\nscheduler:\n  submission_interval: soon\n";
    fs::write(world.dir.join("bad.yaml"), text).unwrap();
    shows!("config-check.error", world.fails(2, &["config", "check", "bad.yaml"]));
    let done = world.run(&["config", "check", "bad.yaml", "-o", "json"]);
    assert_eq!(done.code, Some(2));
    shows!("config-check.error.json", done.out);
    assert!(world.fails(2, &["config", "check", "none.yaml"]).contains("there is no such file"));
}
