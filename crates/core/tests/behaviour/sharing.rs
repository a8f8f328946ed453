//! Shares: whose turn it is when several owners want the pool, and what an owner may have.

#![allow(clippy::unwrap_used, reason = "tests may")]

use std::collections::BTreeMap;

use multicluster_core::{Input, Refusal};
use multicluster_types::{
    JobId, Lang, Owner, Priority, Reason, ReasonKind, Share, ShareTerms, ShareWeight, Shares, Span, State,
};

use crate::env::*;

fn owner(name: &str) -> Owner {
    Owner::new(name).unwrap()
}

fn weighing(weight: f64) -> ShareTerms {
    ShareTerms { weight: ShareWeight::new(weight).unwrap(), ..ShareTerms::default() }
}

fn set_shares(env: &mut TestEnv, half_life: Span, named: &[(&str, ShareTerms)]) {
    let named = named.iter().map(|(name, terms)| (owner(name), terms.clone())).collect();
    let mut settings = env.core.settings().clone();
    settings.shares = Shares::new(half_life, named).unwrap();
    let clusters = env.core.clusters().map(|c| (*c.spec).clone()).collect();
    env.send(Input::Reload { settings: Box::new(settings), clusters }).unwrap().unwrap();
}

/// One cluster of 8 CPUs without threshold, spacing or limits on starting jobs, closed for now.
fn closed() -> TestEnv {
    let mut env = TestEnv::with(|s| {
        s.submission_interval = Span::ZERO;
        s.resource_threshold = Share::percent(100);
        s.retain_finished = 10;
    });
    env.cluster(a_cluster("only"));
    env.cordon("only");
    env
}

fn submit(env: &mut TestEnv, owner: &str, count: usize) -> Vec<JobId> {
    (0..count).map(|_| env.submit(a_job().owner(owner).cpus(1.0))).collect()
}

/// How many live jobs each owner has.
fn live(env: &TestEnv) -> BTreeMap<String, usize> {
    let mut live = BTreeMap::new();
    for record in env.core.jobs().filter(|record| record.live().is_some()) {
        *live.entry(record.work.owner.as_ref().unwrap().to_string()).or_default() += 1;
    }
    live
}

/// Runs the pool for so long: jobs of one CPU take a minute, and each owner always has some queued.
fn keep_full(env: &mut TestEnv, owners: &[&str], minutes: u64) {
    for _ in 0..minutes {
        for name in owners {
            let queued = env
                .core
                .jobs()
                .filter(|job| job.state() == State::Queued && job.work.owner.as_ref() == Some(&owner(name)));
            let missing = 10_usize.saturating_sub(queued.count());
            submit(env, name, missing);
        }
        let here: Vec<_> = env.core.jobs().filter(|j| j.live().is_some()).map(|j| j.id.clone()).collect();
        here.iter().for_each(|job| env.run(job));
        env.advance_s(60);
        here.iter().for_each(|job| env.succeed(job));
        env.poll("only");
    }
}

fn view(env: &TestEnv, name: &str) -> multicluster_core::SharerView {
    env.core.sharers().into_iter().find(|view| view.name == Some(owner(name))).unwrap()
}

#[test]
fn the_owner_that_has_less_goes_first_whoever_submitted_first() {
    let mut env = closed();
    submit(&mut env, "ann", 100);
    submit(&mut env, "bob", 4);
    env.uncordon("only");
    assert_eq!(live(&env), [("ann".into(), 4), ("bob".into(), 4)].into());
}

#[test]
fn weights_divide_the_pool() {
    let mut env = closed();
    set_shares(&mut env, Shares::HALF_LIFE, &[("ann", weighing(3.0))]);
    submit(&mut env, "ann", 10);
    submit(&mut env, "bob", 10);
    env.uncordon("only");
    assert_eq!(live(&env), [("ann".into(), 6), ("bob".into(), 2)].into(), "bob has a weight of 1");
}

#[test]
fn members_of_a_group_share_what_the_group_has() {
    let mut env = closed();
    let research = ShareTerms { members: vec![owner("ann"), owner("bob")], ..weighing(1.0) };
    set_shares(&mut env, Shares::HALF_LIFE, &[("research", research)]);
    for name in ["ann", "bob", "eve"] {
        submit(&mut env, name, 10);
    }
    env.uncordon("only");
    assert_eq!(live(&env), [("ann".into(), 4), ("eve".into(), 4)].into(), "first in, first out in a group");
}

#[test]
fn owners_reach_their_weighted_shares_within_one_half_life() {
    let mut env = closed();
    env.uncordon("only");
    set_shares(&mut env, Span::minutes(60), &[("ann", weighing(3.0))]);
    keep_full(&mut env, &["ann", "bob"], 60);
    let ratio = view(&env, "ann").had.as_f64() / view(&env, "bob").had.as_f64();
    assert!((ratio / 3.0 - 1.0).abs() < 0.05, "{ratio}");
}

#[test]
fn who_had_the_pool_alone_makes_up_for_it_within_one_half_life() {
    let mut env = closed();
    env.uncordon("only");
    set_shares(&mut env, Span::minutes(60), &[]);
    keep_full(&mut env, &["ann"], 300);
    assert!(view(&env, "ann").had > Share::percent(90), "{:?}", view(&env, "ann").had);
    keep_full(&mut env, &["ann", "bob"], 10);
    assert_eq!(live(&env).get("ann"), None, "bob has all of it for now");
    keep_full(&mut env, &["ann", "bob"], 50);
    let [ann, bob] = ["ann", "bob"].map(|name| view(&env, name).had.as_f64());
    assert!((ann - bob).abs() < 0.05, "{ann} {bob}");
}

#[test]
fn priority_counts_before_shares() {
    let mut env = closed();
    submit(&mut env, "bob", 8);
    (0..8).for_each(|_| drop(env.submit(a_job().owner("ann").cpus(1.0).priority(1))));
    env.uncordon("only");
    assert_eq!(live(&env), [("ann".into(), 8)].into());
}

#[test]
fn what_an_owner_had_survives_a_crash_of_the_control_plane() {
    let mut env = closed();
    env.uncordon("only");
    set_shares(&mut env, Span::minutes(60), &[]);
    keep_full(&mut env, &["ann"], 30);
    let before = view(&env, "ann");
    env.crash();
    env.poll_all();
    let after = view(&env, "ann");
    assert_eq!((after.had, after.holds, after.queued), (before.had, before.holds, before.queued));
    env.cordon("only");
    let open = env.core.jobs().filter(|job| !job.state().is_terminal()).map(|job| job.id.clone());
    let open: Vec<_> = open.collect();
    for job in open {
        match env.state(&job) {
            State::Queued => drop(env.stop(&job)),
            _ => env.succeed(&job),
        }
    }
    env.advance(Span::minutes(60 * 24));
    env.crash();
    assert!(env.store.usage.is_empty(), "nothing is left of it: {:?}", env.store.usage);
}

#[test]
fn a_waiting_job_says_in_numbers_why_others_go_first() {
    let mut env = closed();
    env.uncordon("only");
    set_shares(&mut env, Span::minutes(60), &[]);
    keep_full(&mut env, &["ann"], 300);
    let waits = submit(&mut env, "ann", 10).pop().unwrap();
    submit(&mut env, "bob", 1);
    let why = env.core.explain(&waits).unwrap().summary(Lang::En);
    let line = why.lines().find(|line| line.contains("of the pool")).unwrap_or_else(|| panic!("{why}"));
    assert!(line.starts_with("ann had 9") && line.contains("over the last 1h and has 100 % now"), "{line}");
    assert!(line.ends_with("its share is 50 %: bob goes first"), "{line}");
    let turns: Vec<_> =
        env.core.sharers().into_iter().map(|view| (view.name.unwrap().to_string(), view.turn)).collect();
    assert_eq!(turns, [("bob".into(), Some(1)), ("ann".into(), Some(2))]);
}

#[test]
fn the_first_job_of_an_owner_is_not_next_in_line_while_others_go_first() {
    let mut env = closed();
    env.uncordon("only");
    set_shares(&mut env, Span::minutes(60), &[]);
    keep_full(&mut env, &["ann"], 300);
    let queued = env.core.jobs().filter(|job| job.state() == State::Queued);
    let first = queued.min_by_key(|job| job.seq).unwrap().id.clone();
    assert!(env.summary(&first).contains(", next in line"));
    let bobs = submit(&mut env, "bob", 1).pop().unwrap();
    let why = env.summary(&first);
    assert!(!why.contains("next in line") && why.contains(": bob goes first"), "{why}");
    assert!(env.summary(&bobs).contains(", next in line"), "jobs of ann are not ahead of it");
}

#[test]
fn a_limit_holds_its_owner_back_and_nobody_else() {
    let mut env = closed();
    let limit = amounts(&[("CPU", 2.0)]);
    set_shares(&mut env, Shares::HALF_LIFE, &[("ann", ShareTerms { limit, ..weighing(1.0) })]);
    let anns = submit(&mut env, "ann", 5);
    env.uncordon("only");
    assert_eq!(live(&env), [("ann".into(), 2)].into());
    let Reason::OwnerLimit { held, limit, .. } = env.reason(&anns[4], "only") else {
        panic!("{:?}", env.reason(&anns[4], "only"));
    };
    assert_eq!((held.as_f64(), limit.as_f64()), (2.0, 2.0));
    submit(&mut env, "bob", 6);
    assert_eq!(live(&env), [("ann".into(), 2), ("bob".into(), 6)].into());
    env.run(&anns[0]);
    env.succeed(&anns[0]);
    assert_eq!(env.place(&anns[2]), "only", "one less, one more");
}

#[test]
fn a_job_beyond_the_limit_of_its_owner_is_told_so_at_once() {
    let mut env = closed();
    let limit = amounts(&[("CPU", 2.0)]);
    set_shares(&mut env, Shares::HALF_LIFE, &[("ann", ShareTerms { limit, ..weighing(1.0) })]);
    let accepted = env.try_submit(a_job().owner("ann").cpus(4.0)).unwrap();
    let notice = accepted.notices[0].describe(Lang::En);
    assert!(notice.contains("ann has CPU 0 of at most 2, 4 requested"), "{notice}");
    env.set("infeasible", "reject");
    let refused = env.try_submit(a_job().owner("ann").cpus(4.0)).unwrap_err();
    assert_eq!(refused.code(), "infeasible");
}

#[test]
fn an_owner_cannot_fill_the_queue_or_raise_the_priority_beyond_its_terms() {
    let mut env = closed();
    let terms = ShareTerms { max_queued: Some(3), max_priority: Some(Priority(5)), ..weighing(1.0) };
    set_shares(&mut env, Shares::HALF_LIFE, &[("ann", terms)]);
    submit(&mut env, "ann", 3);
    let full = env.try_submit(a_job().owner("ann")).unwrap_err();
    assert!(matches!(full, Refusal::OwnerQueueFull { queued: 3, most: 3, .. }), "{full}");
    assert_eq!(full.code(), "queue_full");
    let high = env.try_submit(a_job().owner("ann").priority(6)).unwrap_err();
    assert!(high.to_string().starts_with("ann may ask for a priority up to 5, not 6"), "{high}");
    env.submit(a_job().owner("bob").priority(6));
}

#[test]
fn with_one_owner_every_decision_is_the_same_as_without_owners() {
    let decisions = |owner: Option<&str>| {
        let mut env = TestEnv::with(|s| s.submission_interval = Span::seconds(1));
        env.cluster(a_cluster("centos")).cluster(a_cluster("mac").cpus(16.0));
        let named = [("ann", weighing(3.0)), ("bob", weighing(0.1))];
        set_shares(&mut env, Span::minutes(10), &named);
        let mut seed = 7_u64;
        let mut random = move |below: u32| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            u32::try_from(seed >> 33).unwrap() % below
        };
        for n in 0..400 {
            let mut job = a_job().id(&format!("j{n}")).cpus([1.0, 2.0, 4.0, 6.0][random(4) as usize]);
            job = job.priority([0, 0, 0, 5][random(4) as usize]);
            if let Some(owner) = owner {
                job = job.owner(owner);
            }
            env.submit(job);
            env.advance_s(random(20).into());
            let live: Vec<_> = env.core.jobs().filter(|j| j.live().is_some()).map(|j| j.id.clone()).collect();
            if let Some(job) = live.get(random(4) as usize) {
                env.run(job);
                env.succeed(job);
            }
        }
        let decisions = env.decisions.iter().map(|d| (d.job.to_string(), d.cluster.to_string(), d.at));
        decisions.collect::<Vec<_>>()
    };
    let without = decisions(None);
    assert!(without.len() > 200, "{}", without.len());
    assert_eq!(without, decisions(Some("ann")));
}

#[test]
fn a_changed_group_takes_effect_at_once() {
    let mut env = closed();
    submit(&mut env, "ann", 10);
    submit(&mut env, "bob", 10);
    env.uncordon("only");
    assert_eq!(live(&env)["ann"], 4);
    let limit = amounts(&[("CPU", 2.0)]);
    let team = ShareTerms { members: vec![owner("ann"), owner("bob")], limit, ..weighing(1.0) };
    set_shares(&mut env, Shares::HALF_LIFE, &[("team", team)]);
    let team = view(&env, "team");
    assert_eq!((team.live, team.queued, team.holds), (8, 12, Share::percent(100)));
    let queued = env.core.jobs().find(|job| job.state() == State::Queued).unwrap().id.clone();
    assert_eq!(env.reason(&queued, "only").kind(), ReasonKind::OwnerLimit);
}
