//! Tags that no cluster carries: labels, unless they look like a mistyped placement tag.

use multicluster_types::{Lang, State};

use crate::env::*;

fn two_systems(env: TestEnv) -> TestEnv {
    let mut env = env;
    env.cluster(a_cluster("centos").tags(&["linux", "x86_64"]));
    env.cluster(a_cluster("mac").tags(&["macos", "arm64"]));
    env
}

fn told(env: &mut TestEnv, tags: &[&str]) -> Vec<String> {
    let preview = env.core.what_if(&a_job().tags(tags).0.work, None);
    let accepted = env.try_submit(a_job().tags(tags)).expect("labels are kept");
    assert_eq!(accepted.notices, preview.notices, "the preview says what the submission says");
    accepted.notices.iter().map(|notice| notice.describe(Lang::En)).collect()
}

#[test]
fn a_label_that_resembles_a_tag_of_a_cluster_is_told_at_once() {
    let mut env = two_systems(TestEnv::unspaced());
    assert_eq!(
        told(&mut env, &["lnux"]),
        ["no cluster carries lnux: it is kept as a label; did you mean linux?"]
    );
    assert_eq!(told(&mut env, &["amr64", "x86-64"]).len(), 2);
    let accepted = env.try_submit(a_job().tags(&["lnux"])).unwrap();
    assert_eq!(env.place(&accepted.job), "centos", "still a label: it filters nothing");
    assert_eq!(
        accepted.notices[0].describe(Lang::Zh),
        "没有集群带有标签 lnux：它只作为标记保留；是否想写 linux？"
    );
}

#[test]
fn labels_that_resemble_nothing_and_tags_that_exist_are_silent() {
    let mut env = two_systems(TestEnv::unspaced());
    assert!(told(&mut env, &["tradebot", "fund", "linux"]).is_empty());
}

#[test]
fn a_label_is_looked_at_again_when_clusters_change() {
    let mut env = two_systems(TestEnv::unspaced());
    assert!(told(&mut env, &["cuda-12"]).is_empty());
    env.cluster(a_cluster("gpu").tags(&["cuda12"]));
    assert_eq!(told(&mut env, &["cuda-12"]).len(), 1);
}

#[test]
fn a_task_is_told_as_a_job_is() {
    let mut env = two_systems(TestEnv::unspaced());
    assert_eq!(env.try_submit(a_task().tags(&["maocs"])).unwrap().notices.len(), 1);
}

#[test]
fn unknown_tags_are_refused_if_the_settings_say_so() {
    let mut env = two_systems(TestEnv::with(|s| s.set("unknown_tags", "reject").unwrap()));
    let refused = env.try_submit(a_job().tags(&["lnux"])).unwrap_err();
    assert_eq!(refused.code(), "unknown_tag");
    assert_eq!(refused.to_string(), "no cluster carries tag lnux\n  hint: did you mean linux?");
    let refused = env.core.what_if(&a_job().tags(&["tradebot"]).0.work, None).refused.unwrap();
    assert_eq!(
        refused,
        "no cluster carries tag tradebot\n  \
         hint: clusters carry arm64, linux, macos, x86_64; unknown_tags: allow keeps others as labels"
    );
    let job = env.submit(a_job().tags(&["linux"]));
    assert_eq!((env.place(&job), env.state(&job)), ("centos", State::Dispatching));
}
