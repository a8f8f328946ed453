//! Packages that another replica has uploaded.

use std::{fs, sync::Arc};

use multicluster_store::{Options, Packages, Room, StoreError};

use crate::{
    backend::open,
    server::{Server, ask},
    support::*,
};

#[test]
fn what_one_replica_took_another_has_and_checks() {
    let server = Server::shared();
    let url = server.url(&server.database());
    let dir = TempDir::new();
    let options = Options { cache: Some(dir.path().to_owned()), ..Options::default() };
    let (one, two) = (open(&url, Options::default()).unwrap(), open(&url, options.clone()).unwrap());
    for size in [0, 1, (1 << 20) - 1, 1 << 20, (3 << 20) + 5] {
        let body: Vec<u8> = (0..size).map(|i| (i * 7 % 251) as u8).collect();
        let package = upload(&*one.packages(), &format!("a-{size}"), &body).unwrap();
        assert_eq!(two.packages().find(&package.name).unwrap().as_ref(), Some(&package));
        let path = two.packages().content(&package.sha256).unwrap().unwrap();
        assert_eq!(fs::read(&path).unwrap(), body);
        // A copy that is damaged is fetched again by the next process.
        if size > 0 {
            fs::write(&path, vec![0xff; size]).unwrap();
            let again = open(&url, options.clone()).unwrap();
            let path = again.packages().content(&package.sha256).unwrap().unwrap();
            assert_eq!(fs::read(path).unwrap(), body);
        }
    }
    assert_eq!(fs::read_dir(dir.path().join("uploads")).unwrap().count(), 0);
}

#[test]
fn what_the_database_has_damaged_is_not_passed_on() {
    let server = Server::shared();
    let url = server.url(&server.database());
    let (one, two) = (open(&url, Options::default()).unwrap(), open(&url, Options::default()).unwrap());
    let package = upload(&*one.packages(), "a", &[1; 100]).unwrap();
    ask(&url, "UPDATE multicluster.package_pieces SET body = overlay(body PLACING '\\x02' FROM 5)");
    assert!(matches!(two.packages().content(&package.sha256), Err(StoreError::Damaged { .. })));
}

#[test]
fn pieces_of_an_upload_that_never_ended_are_removed() {
    let server = Server::shared();
    let url = server.url(&server.database());
    let one = open(&url, Options::default()).unwrap();
    ask(
        &url,
        "INSERT INTO multicluster.package_uploads (begun_at) VALUES (now() - interval '2 hours'), (now());
         INSERT INTO multicluster.package_pieces SELECT upload, 0, 'x' FROM multicluster.package_uploads",
    );
    let kept = upload(&*one.packages(), "a", b"a").unwrap();
    ask(
        &url,
        "UPDATE multicluster.package_uploads SET begun_at = now() - interval '2 hours' WHERE upload = 3",
    );
    upload(&*one.packages(), "b", b"b").unwrap();
    assert_eq!(ask(&url, "SELECT upload FROM multicluster.package_pieces ORDER BY upload"), ["2", "3", "4"]);
    assert!(one.packages().content(&kept.sha256).unwrap().is_some());
}

#[test]
fn copies_are_bounded() {
    let server = Server::shared();
    let url = server.url(&server.database());
    let dir = TempDir::new();
    let one = open(&url, Options::default()).unwrap();
    let packages: Vec<_> =
        (0..6u8).map(|n| upload(&*one.packages(), &n.to_string(), &[n; 1_000]).unwrap()).collect();
    let fetch = |count: usize| {
        let options = Options { cache: Some(dir.path().to_owned()), max_cache: 3_000, ..Options::default() };
        let other = open(&url, options).unwrap();
        let packages_of: Arc<dyn Packages> = other.packages();
        for package in packages.iter().take(count) {
            assert!(packages_of.content(&package.sha256).unwrap().is_some());
        }
        drop(packages_of.begin(&Room::default()).unwrap());
        fs::read_dir(dir.path()).unwrap().count() - 1
    };
    assert_eq!(fetch(3), 3);
    assert_eq!(fetch(0), 3);
    // Those of the process before make room; those that were just asked for stay.
    assert_eq!(fetch(6), 6);
}
