use std::process::{Child, Command};

use super::*;

/// A process with a mark in its environment, in a group of its own.
fn a_marked(mark: &str, script: &str) -> Child {
    let (name, value) = mark.split_once('=').unwrap();
    Command::new("sh").args(["-c", script]).env(name, value).spawn().unwrap()
}

fn wait_for(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline);
        thread::sleep(STEP);
    }
}

#[test]
fn a_number_that_somebody_else_has_now_is_left_alone() {
    let mut other = a_marked("OTHER=1", "sleep 60");
    let reused = Process { birth: "long ago".into(), ..Process::with(other.id()).unwrap() };
    assert!(!reused.is_running());
    let family = Family { leader: Some(reused), mark: "MULTICLUSTER_TEST=nobody".into() };
    assert_eq!(family.end().unwrap(), 0);
    assert_eq!(other.try_wait().unwrap(), None);
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn whoever_bears_the_mark_is_ended_with_all_its_children() {
    let mark = format!("MULTICLUSTER_TEST={}", uuid::Uuid::new_v4());
    // The child drops the mark, and both ignore a polite request.
    let mut marked = a_marked(&mark, "trap '' TERM; env -i sh -c 'trap \"\" TERM; sleep 60; :' & wait; :");
    let family = Family { leader: None, mark };
    wait_for(|| family.members().len() >= 3);
    assert!(family.end().unwrap() >= 3);
    assert!(family.members().is_empty());
    marked.wait().unwrap();
}

#[test]
fn an_ended_process_that_nobody_has_waited_for_does_not_run() {
    let mut child = a_marked("OTHER=1", "exit 0");
    let pid = child.id();
    wait_for(|| Process::with(pid).is_none());
    child.wait().unwrap();
}
