//! Packages.

use std::{path::Path, sync::Arc, thread, time::Duration};

use multicluster_store::{Options, Packages, Room, StoreError};

use crate::support::*;

fn bytes(content: &Path) -> Vec<u8> {
    std::fs::read(content).unwrap()
}

fn has(packages: &Arc<dyn Packages>, name: &str) -> bool {
    packages.find(name).unwrap().is_some()
}

/// Room for 10,000 bytes, and a recent request alone does not keep a package.
fn small() -> Options {
    Options { max_package: 6_000, max_packages: 10_000, package_grace: Duration::ZERO, ..Options::default() }
}

/// Waits until a new use has another millisecond.
fn a_moment_later() {
    thread::sleep(Duration::from_millis(3));
}

#[test]
fn what_was_uploaded_is_found_by_name_and_by_content() {
    let mut store = TestStore::new(Options::default());
    let body: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8).collect();
    let package = store.upload("_ray_pkg_1.zip", &body).unwrap();
    assert_eq!((package.name.as_str(), package.size), ("_ray_pkg_1.zip", 300_000));
    for _ in 0..2 {
        assert_eq!(store.packages().find("_ray_pkg_1.zip").unwrap(), Some(package.clone()));
        let content = store.packages().content(&package.sha256).unwrap().unwrap();
        assert_eq!(bytes(&content), body);
        store.reopen();
    }
    assert_eq!(store.packages().find("other.zip").unwrap(), None);
    assert!(store.packages().content(&"0".repeat(64)).unwrap().is_none());
}

#[test]
fn an_empty_package_is_a_package() {
    let store = TestStore::new(Options::default());
    let package = store.upload("empty", b"").unwrap();
    assert_eq!(package.sha256, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_eq!(bytes(&store.packages().content(&package.sha256).unwrap().unwrap()), b"");
}

#[test]
fn a_name_may_come_to_stand_for_something_else() {
    let store = TestStore::new(Options::default());
    let old = store.upload("a.zip", b"old").unwrap();
    let new = store.upload("a.zip", b"new").unwrap();
    let same = store.upload("b.zip", b"new").unwrap();
    assert_eq!(store.packages().find("a.zip").unwrap(), Some(new.clone()));
    assert_eq!(same.sha256, new.sha256);
    assert_eq!(
        bytes(&store.packages().content(&old.sha256).unwrap().unwrap()),
        b"old",
        "earlier jobs run it"
    );
}

#[test]
fn names_are_checked() {
    let store = TestStore::new(Options::default());
    for bad in ["", "..", "../a", "a/b", ".a", "a\0", "a\n", &"x".repeat(257)] {
        assert!(matches!(store.upload(bad, b"x"), Err(StoreError::BadName { .. })), "{bad:?}");
        assert!(matches!(store.packages().find(bad), Err(StoreError::BadName { .. })), "{bad:?}");
    }
    for bad in ["", "..", "../../etc/passwd", &"G".repeat(64)] {
        assert!(store.packages().content(bad).unwrap().is_none(), "{bad:?}");
    }
}

#[test]
fn a_package_that_is_too_large_is_refused() {
    let store = TestStore::new(small());
    let mut upload = store.packages().begin(&Room::default()).unwrap();
    upload.write(&[1; 6_000]).unwrap();
    assert!(matches!(upload.write(&[1]), Err(StoreError::TooLarge { max: 6_000 })));
    assert!(upload.write(&[]).is_err(), "it stays refused");
    assert!(matches!(upload.finish("a"), Err(StoreError::TooLarge { .. })));
    assert!(!has(&store.packages(), "a"));
    store.upload("a", &[1; 6_000]).unwrap();
}

#[test]
fn the_longest_unused_make_room() {
    let mut store = TestStore::new(small());
    for name in ["a", "b", "c"] {
        store.upload(name, name.repeat(3_000).as_bytes()).unwrap();
        a_moment_later();
    }
    assert!(has(&store.packages(), "a"), "which makes b the longest unused");
    a_moment_later();
    store.upload("d", "d".repeat(3_000).as_bytes()).unwrap();
    store.reopen();
    let kept: Vec<_> = ["a", "b", "c", "d"].into_iter().filter(|name| has(&store.packages(), name)).collect();
    assert_eq!(kept, ["a", "c", "d"]);
}

#[test]
fn what_jobs_need_stays() {
    let mut store = TestStore::new(small());
    let needed = store.upload("a", &[1; 5_000]).unwrap();
    store.commit([job(queued("j", 1)), needing("j", &needed)]);
    a_moment_later();
    store.upload("b", &[2; 5_000]).unwrap();
    a_moment_later();
    store.upload("c", &[3; 5_000]).unwrap();
    assert!(has(&store.packages(), "a") && !has(&store.packages(), "b"));
    let other = store.packages().find("c").unwrap().unwrap();
    store.commit([job(queued("k", 2)), needing("k", &other)]);
    store.reopen();
    a_moment_later();
    assert!(matches!(store.upload("d", &[4; 5_000]), Err(StoreError::Full { used: 10_000, max: 10_000 })));
    assert!(has(&store.packages(), "a") && has(&store.packages(), "c") && !has(&store.packages(), "d"));
    store.commit([delete("j")]);
    a_moment_later();
    store.upload("d", &[4; 5_000]).unwrap();
    assert!(!has(&store.packages(), "a") && has(&store.packages(), "c"));
}

#[test]
fn one_owner_does_not_take_the_room_of_the_others() {
    let mut store = TestStore::new(small());
    let room = |owner: &str| Room { all: Some(9_000), own: Some((format!("{owner}-"), 5_000)) };
    let packages = store.packages();
    let put = |owner: &str, name: &str, bytes: &[u8]| {
        let mut upload = packages.begin(&room(owner)).unwrap();
        upload.write(bytes).unwrap();
        a_moment_later();
        upload.finish(&format!("{owner}-{name}"))
    };
    put("a", "1", &[1; 3_000]).unwrap();
    put("b", "1", &[2; 3_000]).unwrap();
    put("a", "2", &[3; 3_000]).unwrap();
    assert!(!has(&packages, "a-1"), "its own make room first");
    assert!(has(&packages, "b-1"));
    let second = packages.find("a-2").unwrap().unwrap();
    store.commit([job(queued("j", 1)), needing("j", &second)]);
    assert!(matches!(put("a", "3", &[4; 3_000]), Err(StoreError::ShareFull { used: 3_000, max: 5_000 })));
    assert!(has(&packages, "b-1") && !has(&packages, "a-3"));
    assert_eq!(put("a", "4", &[3; 3_000]).unwrap().sha256, second.sha256, "what is there costs nothing");
    put("b", "2", &[5; 2_000]).unwrap();
    let other = put("b", "3", &[6; 3_000]).unwrap();
    store.commit([job(queued("k", 2)), needing("k", &other)]);
    assert!(matches!(put("c", "1", &[7; 4_000]), Err(StoreError::Full { max: 9_000, .. })));
}

#[test]
fn what_is_on_its_way_has_as_much_room_and_one_owner_its_share() {
    let store = TestStore::new(small());
    let room = |owner: &str| Room { all: Some(9_000), own: Some((format!("{owner}-"), 5_000)) };
    let packages = store.packages();
    let begin = |owner: &str, size: usize| {
        let mut upload = packages.begin(&room(owner)).unwrap();
        upload.write(&vec![1; size]).map(|()| upload).map_err(|error| match error {
            StoreError::Crowded { used, max } => (used, max),
            other => panic!("{other}"),
        })
    };
    let first = begin("a", 4_000).unwrap();
    assert_eq!(begin("a", 2_000).err(), Some((6_000, 5_000)));
    let second = begin("b", 4_000).unwrap();
    assert_eq!(begin("c", 2_000).err(), Some((10_000, 9_000)));
    first.finish("a-1").unwrap();
    let third = begin("a", 5_000).unwrap();
    drop((second, third));
    begin("c", 5_000).unwrap().finish("c-1").unwrap();
}

#[test]
fn what_somebody_asked_for_stays_for_a_while() {
    let store = TestStore::new(Options { package_grace: Duration::from_secs(600), ..small() });
    store.upload("a", &[1; 6_000]).unwrap();
    a_moment_later();
    assert!(matches!(store.upload("b", &[2; 6_000]), Err(StoreError::Full { .. })));
    assert!(has(&store.packages(), "a"));
    store.upload("a2", &[1; 6_000]).unwrap();
}

#[test]
fn an_upload_that_is_dropped_leaves_nothing() {
    let store = TestStore::new(small());
    for _ in 0..5 {
        let mut upload = store.packages().begin(&Room::default()).unwrap();
        upload.write(&[1; 6_000]).unwrap();
    }
    let package = store.upload("a", &[2; 6_000]).unwrap();
    assert_eq!(package.size, 6_000);
}

#[test]
fn uploads_at_the_same_time_do_not_disturb_each_other() {
    let store = TestStore::new(Options::default());
    thread::scope(|scope| {
        for n in 0..8u8 {
            let packages = store.packages();
            scope.spawn(move || {
                for round in 0..5u8 {
                    let body = [n, round].repeat(10_000);
                    // The same content under two names, from several threads.
                    let own = upload(&*packages, &format!("own-{n}"), &body).unwrap();
                    let shared = upload(&*packages, &format!("shared-{n}"), &[round; 5_000]).unwrap();
                    for (package, body) in [(own, body), (shared, vec![round; 5_000])] {
                        let content = packages.content(&package.sha256).unwrap().unwrap();
                        assert_eq!(bytes(&content), body);
                    }
                }
            });
        }
    });
}
