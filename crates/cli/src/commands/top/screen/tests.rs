//! The screen as text.

use multicluster_api::{Cluster, Job, Pool, Queues};
use ratatui::{
    Terminal,
    backend::TestBackend,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
};
use serde_json::{Value, json};

use super::{
    super::{
        super::status::Status,
        app::{App, News, Order, Seen},
    },
    draw,
};
use crate::exit::{Exit, Failure};

const NOW: u64 = 1_794_819_600_000;

fn cluster(name: &str, change: &Value) -> Cluster {
    let mut cluster = json!({
        "name": name, "head_address": "h:1", "dashboard": "http://h", "source": "file", "tags": [], "weight": 1.0,
        "prefer": false, "health": {"state": "healthy"}, "breaker": {"state": "closed"}, "draining": false,
        "leaving": false, "promised": {}, "claimed": {}, "logical": {}, "physical": {}, "live": 0, "top_level_jobs": 0,
        "runtime_env": {}, "connection": {"has_token": false, "insecure_tls": false},
        "limits": {"resource_threshold": 0.7, "submission_interval_seconds": 40.0},
    });
    for (key, value) in change.as_object().cloned().unwrap_or_default() {
        cluster[key] = value;
    }
    serde_json::from_value(cluster).expect("a cluster")
}

fn job(id: &str, state: &str, change: &Value) -> Job {
    let mut job = json!({
        "id": id, "kind": "job", "state": state, "ray_status": "PENDING", "demand": {}, "priority": 0, "attempts": 0,
        "max_retries": 0, "on_cluster_loss": "wait", "submitted_at": NOW - 60_000, "entrypoint": "python train.py",
    });
    for (key, value) in change.as_object().cloned().unwrap_or_default() {
        job[key] = value;
    }
    serde_json::from_value(job).expect("a job")
}

fn app() -> App {
    let clusters = vec![
        cluster(
            "centos",
            &json!({"logical": {"cpu": 0.375, "memory": 0.9}, "live": 3, "next_submission_at": NOW + 12_400}),
        ),
        cluster("mac", &json!({"logical": {"cpu": 0.6, "gpu": 1.0, "memory": 0.1}, "cordoned": "disk swap"})),
        cluster("lab", &json!({"health": {"state": "unhealthy", "since_at": NOW - 9000, "error": "gone"}})),
    ];
    let pool: Pool = serde_json::from_value(json!({
        "clusters": 3, "available": 1, "health": {"healthy": 2, "unhealthy": 1}, "nodes": 2, "total": {"CPU": 12},
        "used": {"CPU": 5}, "promised": {}, "claimed": {}, "free": {"CPU": 7}, "logical": {"cpu": 0.4}, "live": 3, "waiting": 4,
    }))
    .expect("a pool");
    let queues: Queues = serde_json::from_value(json!({"waiting": 4, "items": [
        {"name": "jobs", "kind": "jobs", "waiting": 0, "limit": 100, "heads": []},
        {"name": "jobs@mac", "kind": "jobs", "cluster": "mac", "waiting": 4, "limit": 100, "heads": [
            {"id": "nightly", "kind": "job", "demand": {"CPU": 2}, "priority": 0, "queued_at": NOW - 90_000,
             "waiting": 4, "summary": "queued for 90 s in jobs@mac, next in line", "clusters": [
                {"cluster": "centos", "verdict": "rejected", "reason": "other_cluster", "text": "the work asks for mac"},
                {"cluster": "mac", "verdict": "rejected", "reason": "cordoned", "text": "cordoned: disk swap"}]}]},
    ]}))
    .expect("queues");
    let jobs = vec![
        job("nightly", "queued", &json!({"queued_at": NOW - 90_000, "preferred_cluster": "mac"})),
        job("train-2026-11-16", "running", &json!({"running_at": NOW - 723_000, "cluster": "centos"})),
        job("report", "failed", &json!({"ended_at": NOW - 4000, "cluster": "centos"})),
    ];
    App::new("http://127.0.0.1:8700", Seen { status: Status { pool, clusters, queues }, jobs })
}

fn drawn(app: &App, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal.draw(|frame| draw(frame, app, NOW)).expect("it is drawn");
    terminal.backend().to_string()
}

fn press(app: &mut App, key: char) -> Option<Order> {
    app.hear(News::Key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE)))
}

/// Replaces times of day, which depend on the time zone.
fn shows(name: &str, screen: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\d\d:\d\d:\d\d", "[clock ]");
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, screen));
}

#[test]
fn clusters_queue_and_jobs_are_on_one_screen() {
    shows("usual", &drawn(&app(), 80, 24));
    shows("wide", &drawn(&app(), 120, 30));
}

#[test]
fn a_control_plane_that_is_away_is_told_and_what_was_seen_stays() {
    let mut app = app();
    let failure = Failure::new(Exit::Unreachable, "cannot reach a control plane at http://127.0.0.1:8700");
    app.hear(News::Seen(Err(failure)));
    app.away = app.away.map(|(_, why)| (NOW - 12_000, why));
    shows("away", &drawn(&app, 80, 24));
}

#[test]
fn help_lies_over_the_rest() {
    let mut app = app();
    press(&mut app, '?');
    shows("help", &drawn(&app, 80, 24));
    press(&mut app, '?');
    assert!(!app.shows_help);
}

#[test]
fn keys_choose_a_cluster_and_turn_it_off_and_on() {
    let mut app = app();
    let order = |cluster: &str, verb| Some(Order { cluster: cluster.to_owned(), verb });
    let confirmed = |app: &mut App| [press(app, 'c'), press(app, 'y')];
    assert_eq!(confirmed(&mut app), [None, order("centos", "cordon")]);
    press(&mut app, 'j');
    assert_eq!(confirmed(&mut app), [None, order("mac", "uncordon")]);
    (0..9).for_each(|_| drop(press(&mut app, 'j')));
    assert_eq!(confirmed(&mut app), [None, order("lab", "cordon")]);
    press(&mut app, 'q');
    assert!(app.is_over);
}

#[test]
fn a_cluster_is_cordoned_only_after_a_yes() {
    let mut app = app();
    assert_eq!(press(&mut app, 'c'), None);
    let screen = drawn(&app, 80, 24);
    let question = "cordon centos? [y/N]  it accepts no new jobs; 3 on it continue";
    assert!(screen.contains(question), "{screen}");
    // Any other key is a no, even a second `c`, or the one that quits.
    for key in ['n', 'c', 'q'] {
        app.asked.get_or_insert(Order { cluster: "centos".to_owned(), verb: "cordon" });
        assert_eq!(press(&mut app, key), None);
        assert_eq!((app.asked.take(), app.is_over), (None, false));
    }
    assert!(drawn(&app, 80, 24).contains("centos is unchanged"));
    // Another cluster that moves to its row in the meantime is not cordoned instead.
    press(&mut app, 'c');
    app.seen.status.clusters.remove(0);
    assert_eq!(press(&mut app, 'y').map(|order| order.cluster), Some("centos".to_owned()));
}

#[test]
fn the_cluster_that_is_chosen_is_on_the_screen() {
    let mut app = app();
    app.seen.status.clusters = (0..40).map(|nth| cluster(&format!("c{nth}"), &json!({}))).collect();
    for _ in 0..40 {
        let chosen = app.seen.status.clusters[app.selected].name.clone();
        let screen = drawn(&app, 80, 24);
        assert!(screen.contains(&format!("{chosen} ")), "{chosen}:\n{screen}");
        press(&mut app, 'j');
    }
}

#[test]
fn a_small_window_is_no_trouble() {
    for (width, height) in [(1, 1), (20, 5), (40, 8), (300, 3)] {
        drawn(&app(), width, height);
    }
}
