//! The users: one job and one task per second, and everyone who looks.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::http::StatusCode;
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::world::World;

/// How often each kind of request got each status.
pub(super) type Answers = BTreeMap<(&'static str, u16), u64>;

pub(super) struct People {
    at_work: JoinSet<()>,
    desk: Arc<Desk>,
}

/// Shared by all users.
struct Desk {
    world: Arc<World>,
    answers: Mutex<Answers>,
}

impl People {
    pub(super) fn new(world: Arc<World>) -> Self {
        Self { at_work: JoinSet::new(), desk: Arc::new(Desk { world, answers: Mutex::default() }) }
    }

    pub(super) fn do_their_part(&mut self, second: u64) {
        while let Some(done) = self.at_work.try_join_next() {
            done.unwrap();
        }
        let desk = || Arc::clone(&self.desk);
        let begin = &mut self.at_work;
        begin.spawn(desk().run_a_job(second));
        begin.spawn(desk().run_a_task(second));
        begin.spawn(desk().look_around(second));
        if second.is_multiple_of(300) {
            begin.spawn(desk().keep_an_actor(second));
        }
        if second.is_multiple_of(60) {
            begin.spawn(desk().watch_for(Duration::from_secs(150)));
        }
        if second.is_multiple_of(20) {
            begin.spawn(desk().follow_a_log(second));
        }
    }

    /// Waits until all users have finished.
    pub(super) async fn go_home(&mut self) {
        while let Some(done) = self.at_work.join_next().await {
            done.unwrap();
        }
    }

    pub(super) fn answers(&self) -> Answers {
        self.desk.answers.lock().unwrap().clone()
    }

    /// Checks that all answers are as they should be.
    pub(super) fn check_answers(&self) {
        let answers = self.answers();
        let bad: Vec<_> = answers.iter().filter(|((_, status), _)| !(200..300).contains(status)).collect();
        assert!(bad.is_empty(), "{bad:#?}");
    }
}

impl Desk {
    async fn ask(&self, what: &'static str, method: &str, path: &str, body: Option<Value>) -> Value {
        let (status, json) = self.world.ask(method, path, body).await;
        self.note(what, status);
        json
    }

    fn note(&self, what: &'static str, status: StatusCode) {
        *self.answers.lock().unwrap().entry((what, status.as_u16())).or_default() += 1;
    }

    /// Some jobs are stopped, some are waited for, and of some the output is read.
    async fn run_a_job(self: Arc<Self>, n: u64) {
        let accepted = self.ask("submit", "POST", "/v1/jobs", Some(a_job(n))).await;
        let id = accepted["id"].as_str().expect("it is accepted").to_owned();
        if is_stopped(n) {
            sleep(Duration::from_secs(1)).await;
            self.ask("stop", "POST", &format!("/v1/jobs/{id}/stop"), None).await;
        }
        if n.is_multiple_of(3) {
            let path = format!("/v1/jobs/{id}/wait?timeout=60s");
            while !is_over(&self.ask("wait", "GET", &path, None).await) {}
            self.ask("logs", "GET", &format!("/v1/jobs/{id}/logs"), None).await;
        }
    }

    /// Some tasks never release their placement.
    async fn run_a_task(self: Arc<Self>, n: u64) {
        let wanted = json!({ "kind": "task", "demand": { "CPU": 1 + n % 2 } });
        let Some(held) = self.place(wanted).await else { return };
        sleep(Duration::from_millis(500 * (n % 9))).await;
        if n % 50 != 7 {
            self.give_back(held).await;
        }
    }

    /// Keeps the actor for a quarter of an hour.
    async fn keep_an_actor(self: Arc<Self>, n: u64) {
        let wanted = json!({ "kind": "actor", "demand": { "CPU": 1, "memory": 1_000_000_000 }, "id": format!("actor-{n}") });
        let Some(held) = self.place(wanted).await else { return };
        let until = Instant::now() + Duration::from_secs(900);
        while Instant::now() < until {
            sleep(Duration::from_secs(10)).await;
            let beats = json!({ "leases": [&held] });
            let answer = self.ask("heartbeat", "POST", "/v1/placements/heartbeat", Some(beats)).await;
            if answer["leases"][0]["status"] == "gone" {
                return;
            }
        }
        self.give_back(held).await;
    }

    /// The id and attempt of a placement; `None` if none was granted within a minute.
    async fn place(&self, wanted: Value) -> Option<Value> {
        let placed = self.ask("place", "POST", "/v1/placements?wait=60s", Some(wanted)).await;
        let attempt = &placed["granted"]["attempt"];
        attempt.is_number().then(|| json!({ "id": placed["id"], "attempt": attempt }))
    }

    async fn give_back(&self, mut held: Value) {
        held["outcome"] = "succeeded".into();
        self.ask("release", "POST", "/v1/placements/release", Some(json!({ "leases": [held] }))).await;
    }

    /// A status every second, and now and then everything that can be shown.
    async fn look_around(self: Arc<Self>, second: u64) {
        let every = |seconds: u64| second.is_multiple_of(seconds);
        if second > 5 {
            let id = job_id(second - 5);
            self.ask("status", "GET", &format!("/v1/jobs/{id}"), None).await;
            if every(10) {
                self.ask("why", "GET", &format!("/v1/jobs/{id}/explain"), None).await;
                self.ask("Ray's status", "GET", &format!("/api/jobs/{id}"), None).await;
            }
        }
        if every(15) {
            self.ask("metrics", "GET", "/metrics", None).await;
            self.ask("queue", "GET", "/v1/queue", None).await;
            self.ask("clusters", "GET", "/v1/clusters", None).await;
            self.ask("list", "GET", "/v1/jobs?limit=50", None).await;
        }
        if every(60) {
            self.ask("history", "GET", "/v1/history", None).await;
            self.ask("decisions", "GET", "/v1/decisions?limit=50", None).await;
        }
    }

    /// Watches all events.
    async fn watch_for(self: Arc<Self>, span: Duration) {
        let response = self.world.open("GET", "/v1/events", None).await;
        self.note("watch", response.status());
        let mut events = response.into_body().into_data_stream();
        let until = Instant::now() + span;
        while let Ok(Some(event)) = tokio::time::timeout_at(until, events.next()).await {
            event.unwrap();
        }
    }

    /// Follows the log of a job from before its start to its end, or until the reader leaves.
    async fn follow_a_log(self: Arc<Self>, second: u64) {
        let path = format!("/v1/jobs/{}/logs/follow", job_id(second));
        sleep(Duration::from_millis(200)).await;
        let response = self.world.open("GET", &path, None).await;
        self.note("follow", response.status());
        let mut text = response.into_body().into_data_stream();
        let read = async { while let Some(Ok(_)) = text.next().await {} };
        drop(timeout(Duration::from_secs(60), read).await);
    }
}

fn is_over(job: &Value) -> bool {
    matches!(job["state"].as_str(), Some("succeeded" | "failed" | "stopped"))
}

fn job_id(n: u64) -> String {
    format!("job-{n}")
}

fn is_stopped(n: u64) -> bool {
    n % 29 == 3
}

/// Jobs of a few shapes: some fail, some may be queued again when their cluster is lost.
fn a_job(n: u64) -> Value {
    let lasts = if is_stopped(n) { 60 } else { n % 7 };
    let ends = if n % 40 == 11 { "exit 1" } else { "echo done" };
    let mut job = json!({
        "id": job_id(n),
        "entrypoint": format!("echo job {n} && sleep {lasts} && {ends}"),
        // Every eighth has its driver on the head node.
        "entrypoint_num_cpus": if n % 8 == 5 { 0 } else { 1 + n % 4 },
        "metadata": { "team": format!("team-{}", n % 5) },
        "priority": n % 3,
    });
    if n % 40 == 11 {
        job["max_retries"] = (n / 40 % 3).into();
    }
    if n % 10 == 4 {
        job["preferred_cluster"] = ["centos", "mac", "spot"][usize::try_from(n / 10 % 3).unwrap()].into();
    }
    if n % 5 == 2 {
        job["on_cluster_loss"] = "requeue".into();
    }
    job
}
