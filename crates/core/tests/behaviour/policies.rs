//! Policies that operators register while the scheduler runs.

#![allow(clippy::unwrap_used, reason = "tests may")]

use multicluster_core::{Event, Input, PolicyChange, Refusal, Trial, Tried, policy};
use multicluster_types::{ClusterName, Owner, PolicyRule, PolicySpec, Reason, Span, State, Timestamp};

use crate::env::*;

fn score(name: &str, expression: &str, weight: f64) -> PolicySpec {
    PolicySpec { name: name.into(), rule: PolicyRule::Score { expression: expression.into(), weight } }
}

fn filter(name: &str, expression: &str) -> PolicySpec {
    PolicySpec { name: name.into(), rule: PolicyRule::Filter { expression: expression.into() } }
}

impl TestEnv {
    fn set_policy(&mut self, spec: PolicySpec) -> Result<(), Refusal> {
        self.ask(Input::SetPolicy { spec: Box::new(spec), by: None }).map(drop)
    }

    fn remove_policy(&mut self, name: &str) -> Result<(), Refusal> {
        self.ask(Input::RemovePolicy { name: name.into(), by: None }).map(drop)
    }

    fn registered(&self) -> Vec<&str> {
        self.core.registered_policies().map(|spec| spec.name.as_str()).collect()
    }

    /// Loads settings as a changed file would.
    fn reload(&mut self, change: impl FnOnce(&mut Vec<PolicySpec>)) {
        let mut settings = self.core.settings().clone();
        change(&mut settings.policies);
        let clusters = self.core.clusters().map(|c| (*c.spec).clone()).collect();
        self.ask(Input::Reload { settings: Box::new(settings), clusters }).unwrap();
    }

    fn policy_events(&self) -> Vec<(&str, &PolicyChange)> {
        let mut told = Vec::new();
        for event in &self.events {
            if let Event::Policy { name, change, .. } = event {
                told.push((name.as_str(), change));
            }
        }
        told
    }
}

const MAC: &str = "cluster == 'mac' ? 1.0 : 0.0";

#[test]
fn a_registered_score_decides_beside_those_of_the_settings_until_it_is_removed() {
    let mut env = TestEnv::pair();
    env.set_policy(score("to_mac", MAC, 10.0)).unwrap();
    for _ in 0..3 {
        let job = env.submit(a_job().cpus(1.0));
        assert_eq!(env.place(&job), "mac");
    }
    let what = env.core.what_if(&a_job().0.work, None);
    let parts: Vec<_> = what.clusters[1].parts.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(parts, ["score", "weighted_preference", "to_mac"], "all of them count");
    env.remove_policy("to_mac").unwrap();
    let job = env.submit(a_job().cpus(1.0));
    assert_eq!(env.place(&job), "centos", "which is emptier");
}

#[test]
fn a_registered_filter_holds_at_once_and_what_waits_for_it_goes_when_it_is_removed() {
    let mut env = TestEnv::pair();
    env.set_policy(filter("closed", "cpu < 4.0")).unwrap();
    let job = env.submit(a_job().cpus(4.0));
    assert_eq!(env.reason(&job, "mac"), Reason::Policy { name: "closed".into() });
    env.set_policy(filter("closed", "cpu < 4.0 || cluster == 'mac'")).unwrap();
    assert_eq!(env.place(&job), "mac", "it was replaced by one that lets it pass");
    let other = env.submit(a_job().cpus(5.0));
    assert_eq!(env.state(&other), State::Queued);
    env.remove_policy("closed").unwrap();
    assert_eq!(env.place(&other), "centos");
}

#[test]
fn registered_policies_survive_a_crash() {
    let mut env = TestEnv::pair();
    env.set_policy(score("to_mac", MAC, 0.1 + 0.2)).unwrap();
    env.set_policy(filter("small", "cpu <= 2.0")).unwrap();
    env.set_policy(PolicySpec { name: "spread".into(), rule: PolicyRule::BuiltIn { weight: 0.5 } }).unwrap();
    env.remove_policy("small").unwrap();
    env.crash();
    assert_eq!(env.registered(), ["spread", "to_mac"]);
    env.poll_all();
    let what = env.core.what_if(&a_job().cpus(4.0).0.work, None);
    assert_eq!(what.chosen.unwrap().as_str(), "mac");
    assert_eq!(what.clusters[1].parts.len(), 4);
}

#[test]
fn a_policy_that_cannot_work_is_refused_and_changes_nothing() {
    let mut env = TestEnv::pair();
    env.set_policy(score("mine", MAC, 1.0)).unwrap();
    for (spec, expected) in [
        (score("mine", "free_cpu *", 1.0), "hint: expressions are CEL"),
        (score("other", "fre_cpu", 1.0), "known names are cluster"),
        (filter("other", "free_cpu"), "not true or false"),
        (score("other", "1.0", -1.0), "weight -1 is not usable"),
    ] {
        let refusal = env.set_policy(spec).unwrap_err();
        assert_eq!(refusal.code(), "bad_policy");
        assert!(refusal.to_string().contains(expected), "{refusal}");
    }
    assert_eq!(env.registered(), ["mine"]);
    assert_eq!(env.policy_events().len(), 1);
    for number in 1..policy::MAX {
        env.set_policy(filter(&format!("f{number}"), "true")).unwrap();
    }
    let refusal = env.set_policy(filter("one_more", "true")).unwrap_err();
    assert_eq!(refusal.to_string(), "33 policies, at most 32 are allowed");
    env.set_policy(score("mine", MAC, 2.0)).unwrap();
}

#[test]
fn the_policies_of_the_settings_are_changed_there_only() {
    let mut env = TestEnv::pair();
    let built_in = PolicySpec { name: "score".into(), rule: PolicyRule::BuiltIn { weight: 9.0 } };
    for refusal in [env.set_policy(built_in), env.remove_policy("weighted_preference")] {
        let refusal = refusal.unwrap_err();
        assert_eq!(refusal.code(), "file_policy");
        assert!(refusal.to_string().contains("hint: change it under scheduler.policies"), "{refusal}");
    }
    let refusal = env.remove_policy("scor").unwrap_err();
    assert_eq!(refusal.code(), "unknown_policy");
    assert!(refusal.to_string().ends_with("hint: there are score, weighted_preference"), "{refusal}");
}

#[test]
fn a_policy_that_moves_into_the_settings_is_theirs_from_then_on() {
    let mut env = TestEnv::pair();
    env.set_policy(score("to_mac", MAC, 10.0)).unwrap();
    env.set_policy(filter("small", "cpu <= 2.0")).unwrap();
    env.reload(|policies| policies.push(score("to_mac", MAC, 5.0)));
    assert_eq!(env.registered(), ["small"]);
    let (name, change) = env.policy_events()[2];
    assert_eq!(name, "to_mac");
    assert_eq!(*change, PolicyChange::Removed(Some("the settings now have a policy of this name".into())));
    assert_eq!(env.remove_policy("to_mac").unwrap_err().code(), "file_policy");
    env.reload(|policies| policies.retain(|spec| spec.name.as_str() != "to_mac"));
    assert_eq!(env.registered(), ["small"], "it does not come back by itself");
    let job = env.submit(a_job().cpus(4.0));
    assert_eq!(env.reason(&job, "mac"), Reason::Policy { name: "small".into() });
}

#[test]
fn a_registered_policy_that_no_longer_works_does_not_keep_the_scheduler_from_starting() {
    let mut env = TestEnv::pair();
    env.set_policy(score("to_mac", MAC, 10.0)).unwrap();
    let old = score("old", "a_name_of_an_earlier_version", 1.0);
    env.store.policies.insert("old".into(), old);
    env.crash();
    assert_eq!(env.registered(), ["to_mac"]);
    let (name, change) = *env.policy_events().last().unwrap();
    assert_eq!(name, "old");
    let PolicyChange::Removed(Some(why)) = change else { panic!("{change:?}") };
    assert!(why.as_str().contains("a_name_of_an_earlier_version"), "{why}");
}

#[test]
fn every_change_is_told_with_who_made_it_and_no_change_is_not() {
    let mut env = TestEnv::pair();
    let by = Some(Owner::new("zorro").unwrap());
    let (first, second) = (score("mine", MAC, 1.0), score("mine", MAC, 2.0));
    for spec in [&first, &first, &second] {
        env.ask(Input::SetPolicy { spec: Box::new(spec.clone()), by: by.clone() }).unwrap();
    }
    env.ask(Input::RemovePolicy { name: "mine".into(), by: by.clone() }).unwrap();
    let told: Vec<_> = env.events.iter().filter(|event| matches!(event, Event::Policy { .. })).collect();
    let event = |change| Event::Policy { name: "mine".into(), at: env.now, change, by: by.clone() };
    let expected = [
        event(PolicyChange::Registered(first.rule)),
        event(PolicyChange::Changed(second.rule)),
        event(PolicyChange::Removed(None)),
    ];
    assert_eq!(told, expected.iter().collect::<Vec<_>>());
}

// ---- trying

impl TestEnv {
    fn try_on(&self, name: &str, spec: Option<PolicySpec>, works: &[WorkBuilder]) -> Vec<Tried> {
        let trial = Trial { name: name.into(), spec };
        self.core.try_policy(&trial, works.iter().map(|work| (&work.0.work, None)), false).unwrap()
    }
}

fn chosen(tried: &Tried) -> (Option<&str>, Option<&str>) {
    let name = ClusterName::as_str;
    (tried.now.chosen.as_ref().map(name), tried.then.chosen.as_ref().map(name))
}

#[test]
fn trying_a_policy_shows_the_other_choice_and_changes_nothing() {
    let mut env = TestEnv::pair();
    env.uses("mac", &[("CPU", 4.0)]);
    let durable = env.core.durable();
    let small = [a_job().cpus(1.0)];
    let tried = env.try_on("to_mac", Some(score("to_mac", MAC, 10.0)), &small);
    assert_eq!(chosen(&tried[0]), (Some("centos"), Some("mac")));
    assert!(tried[0].differs());
    let parts: Vec<_> = tried[0].then.clusters[1].parts.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(parts, ["score", "weighted_preference", "to_mac"]);
    // A trial may leave out or change a policy of the settings: nothing changes.
    let tried = env.try_on("score", None, &small);
    assert_eq!(tried[0].then.clusters[0].parts.len(), 1);
    let tried = env.try_on("score", Some(filter("score", "cluster == 'mac'")), &small);
    assert_eq!(chosen(&tried[0]), (Some("centos"), Some("mac")));
    assert_eq!(env.core.durable(), durable);
    assert!(env.policy_events().is_empty());
    let job = env.submit(a_job().cpus(1.0));
    assert_eq!(env.place(&job), "centos");
}

#[test]
fn trying_leaves_the_40_second_rule_out_and_says_what_would_wait() {
    let mut env = TestEnv::new();
    env.cluster(a_cluster("centos")).cluster(a_cluster("mac"));
    for _ in 0..2 {
        env.submit(a_job().cpus(1.0));
    }
    assert_eq!(env.core.what_if(&a_job().0.work, None).chosen, None, "both were just given one");
    let nobody = filter("nobody", "false");
    let tried = env.try_on("nobody", Some(nobody), &[a_job(), a_job().cpus(2.0), a_job()]);
    assert_eq!(tried.len(), 3);
    for tried in &tried {
        assert!(tried.now.chosen.is_some() && tried.then.chosen.is_none() && tried.differs());
    }
}

#[test]
fn what_cannot_be_tried_is_refused() {
    let env = TestEnv::pair();
    let attempt = |name: &str, spec| {
        let trial = Trial { name: name.into(), spec };
        env.core.try_policy(&trial, [], true).unwrap_err().code()
    };
    assert_eq!(attempt("mine", Some(score("mine", "nonesuch", 1.0))), "bad_policy");
    assert_eq!(attempt("mine", None), "unknown_policy");
}

// ---- facts that change without any news of a cluster

#[test]
fn work_that_a_policy_holds_back_until_an_hour_in_a_time_zone_goes_then() {
    let mut env = TestEnv::only();
    // 00:16:40 UTC on a Thursday.
    env.set_policy(filter("office", "now.getHours('Asia/Shanghai') >= 9")).unwrap();
    let at_nine = env.submit(a_job());
    assert_eq!(env.reason(&at_nine, "only"), Reason::Policy { name: "office".into() });
    env.advance_s(3600 - 1001);
    assert_eq!(env.state(&at_nine), State::Queued);
    env.advance_s(1);
    assert_eq!(env.place(&at_nine), "only", "at nine sharp, without any other news");
    env.obey();
    env.set_policy(filter("office", "now.getHours('America/New_York') == 20")).unwrap();
    let there = env.submit(a_job());
    assert_eq!(env.place(&there), "only");
    env.set_policy(filter("office", "now.getDayOfWeek('+08:00') in [0, 6]")).unwrap();
    let weekend = env.submit(a_job());
    let saturday = Timestamp(40 * 3_600_000);
    env.advance(Span(saturday.0 - env.now.0 - 1));
    assert_eq!(env.state(&weekend), State::Queued);
    env.advance(Span(1));
    assert_eq!(env.place(&weekend), "only");
}

#[test]
fn a_policy_that_does_not_ask_for_the_time_wakes_nobody() {
    let mut env = TestEnv::only();
    env.set_policy(filter("closed", "cpu > 100.0")).unwrap();
    env.submit(a_job());
    let next = env.core.next_wakeup().unwrap();
    assert!(next > env.now + Span::seconds(10), "{next:?}");
}

#[test]
fn a_second_cluster_may_be_opened_by_the_length_of_the_queue() {
    let mut env = TestEnv::pair();
    env.uses("centos", &[("CPU", 8.0)]);
    env.set_policy(filter("overflow", "cluster != 'mac' || queued > 2.0")).unwrap();
    let jobs: Vec<_> = (1..=2).map(|cpus| env.submit(a_job().cpus(f64::from(cpus)))).collect();
    assert!(jobs.iter().all(|job| env.state(job) == State::Queued));
    let third = env.submit(a_job().cpus(3.0));
    assert_eq!(env.place(&jobs[0]), "mac", "the first in line, though the last tipped the scale");
    assert_eq!((env.place(&jobs[1]), env.place(&third)), ("", ""), "two wait, which is not more than two");
}

#[test]
fn a_second_cluster_may_be_opened_by_how_long_the_oldest_waits() {
    let mut env = TestEnv::pair();
    env.uses("centos", &[("CPU", 8.0)]);
    env.set_policy(filter("overflow", "cluster != 'mac' || oldest_wait >= 60.0")).unwrap();
    let job = env.submit(a_job().cpus(1.0));
    env.advance_s(55);
    let later = env.submit(a_job().cpus(2.0));
    assert_eq!((env.place(&job), env.place(&later)), ("", ""));
    env.advance_s(5);
    assert_eq!((env.place(&job), env.place(&later)), ("mac", "mac"), "one cycle opens it for both");
}
