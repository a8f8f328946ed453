//! Clusters whose token changes while jobs are sent to them.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use multicluster_core::{CircuitState, HealthState};
use multicluster_testkit::FakeRay;
use multicluster_types::{ClusterName, ClusterSpec, Connection, Credential, JobId, Lang, State};

use crate::world::{World, quick_options, runs};

/// A file with a token, which is removed in the end.
struct TokenFile(PathBuf);

impl TokenFile {
    fn new(name: &str, token: &str) -> Self {
        let path = std::env::temp_dir().join(format!("multicluster-token-{name}-{}", std::process::id()));
        fs::write(&path, token).unwrap();
        Self(path)
    }

    fn write(&self, token: &str) {
        fs::write(&self.0, token).unwrap();
    }

    fn credential(&self) -> Credential {
        Credential::File { file: self.0.display().to_string().into() }
    }
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
    }
}

async fn over(fake: &FakeRay, token: Credential) -> World {
    let mut world = World::over(&[]).await;
    let mut spec = ClusterSpec::new(ClusterName::new(fake.name()).unwrap(), "127.0.0.1:1", fake.url());
    spec.connection = Connection { token: Some(token), ..Connection::default() };
    world.clusters = vec![spec];
    world.reload().await;
    world
}

async fn look(world: &World, name: &str) -> (HealthState, CircuitState) {
    let name = ClusterName::new(name).unwrap();
    let view = world.plane().driver.read(move |core| core.cluster(&name)).await.unwrap().unwrap();
    (view.health, view.circuit)
}

async fn why(world: &World, job: &JobId) -> String {
    let job = job.clone();
    world.plane().driver.read(move |core| core.explain(&job).unwrap().summary(Lang::En)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_replaced_under_load_costs_no_job() {
    let fake = FakeRay::start(quick_options("safe").token("token-0")).await;
    let file = TokenFile::new("load", "token-0");
    let world = over(&fake, file.credential()).await;
    world.healthy("safe").await;
    let mut jobs = Vec::new();
    for round in 1..=10 {
        for _ in 0..5 {
            jobs.push(world.submit(runs("true")).await);
        }
        let token = format!("token-{round}");
        // Half of the time the cluster changes first, and refuses us for a moment.
        if round % 2 == 0 {
            fake.set_token(&token);
            tokio::time::sleep(Duration::from_millis(150)).await;
            file.write(&token);
        } else {
            file.write(&token);
            fake.set_token(&token);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for job in &jobs {
        world.wait_for(job, State::Succeeded).await;
    }
    for (id, runs) in fake.all_runs() {
        assert_eq!(runs, 1, "{id}");
    }
    assert_eq!(look(&world, "safe").await, (HealthState::Healthy, CircuitState::Closed));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_refused_is_named_and_the_jobs_wait_for_a_better_one() {
    let fake = FakeRay::start(quick_options("safe").token("right-token")).await;
    let file = TokenFile::new("wrong", "hunter2-hunter2");
    let world = over(&fake, file.credential()).await;
    let job = world.submit(runs("true")).await;
    let refused = format!("safe: unauthorized: token_file {} was refused", file.0.display());
    world.until(refused.clone(), async || why(&world, &job).await.contains(&refused)).await;
    assert!(!why(&world, &job).await.contains("hunter2"));
    assert!(matches!(look(&world, "safe").await.0, HealthState::Unauthorized { .. }));
    file.write("right-token");
    world.wait_for(&job, State::Succeeded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_provides_the_token_and_its_failure_is_told() {
    let fake = FakeRay::start(quick_options("safe").token("right-token")).await;
    let command =
        |words: &[&str]| Credential::Command { command: words.iter().map(|w| Arc::from(*w)).collect() };
    let world = over(&fake, command(&["/bin/echo", "right-token"])).await;
    let job = world.submit(runs("true")).await;
    world.wait_for(&job, State::Succeeded).await;

    let script = "echo 'error: You must be logged in' >&2; exit 1 # hunter2";
    let world = over(&fake, command(&["/bin/sh", "-c", script])).await;
    let job = world.submit(runs("true")).await;
    let failed = "safe: unauthorized: token_command sh failed: exit code 1: error: You must be logged in";
    world.until(failed.into(), async || why(&world, &job).await.contains(failed)).await;
    assert!(!why(&world, &job).await.contains("hunter2"));
}
