//! Many fakes behind one listener.

use multicluster_testkit::{Endpoint, FakeFleet, Fault};
use reqwest::Method;

use crate::client::{client, get, request, send, submit, try_get};

#[tokio::test]
async fn each_fake_of_a_fleet_is_a_cluster_of_its_own() {
    let fleet = FakeFleet::start(100).await;
    let (one, other) = (fleet.cluster(17), fleet.cluster(18));
    assert_eq!(one.url(), format!("{}/c17", fleet.base_url()));
    submit(one, "j", "forever").await.assert(200, "j");
    submit(other, "j", "forever").await.assert(200, "j");
    get(fleet.cluster(0), "/api/jobs/j").await.assert(404, "Job j does not exist");
    assert_eq!(fleet.clusters().iter().map(|fake| fake.submissions().len()).sum::<usize>(), 2);
    let nobody = format!("{}/c100/api/version", fleet.base_url());
    send(client().request(Method::GET, nobody)).await.unwrap().assert(404, "404: Not Found");
}

#[tokio::test]
async fn one_of_a_fleet_fails_alone() {
    let fleet = FakeFleet::start(3).await;
    fleet.cluster(0).down().await;
    fleet.cluster(1).fault(Endpoint::Any, Fault::Status(500, "no".into()));
    assert!(try_get(fleet.cluster(0), "/api/version").await.is_err());
    get(fleet.cluster(1), "/api/version").await.assert(500, "no");
    get(fleet.cluster(2), "/api/version").await.assert(200, "session_");
    fleet.cluster(0).up().await;
    get(fleet.cluster(0), "/api/version").await.assert(200, "session_");
}

#[tokio::test]
async fn a_handle_keeps_the_fleet_alive() {
    let fake = FakeFleet::start(2).await.cluster(1).clone();
    send(request(&fake, Method::GET, "/api/version")).await.unwrap().assert(200, "session_");
}
