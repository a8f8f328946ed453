//! Random batches: the store equals the fold of [`Durable::apply`], even if it is reopened in
//! between, and answers as the model does.

use std::collections::BTreeSet;

use multicluster_core::{
    Durable, Write,
    record::{JobRecord, Stage},
};
use multicluster_store::{Change, JobFilter, Options, Reader, Search};
use multicluster_types::{Attempt, Kind, State, Tag};
use proptest::{collection::vec, prelude::*, sample::select};

use crate::{model::Model, support::*};

const IDS: [&str; 6] = ["a", "b", "ab", "job-1", "job-2", "c"];
const CLUSTERS: [&str; 3] = ["mac", "centos", "gpu"];
const TAGS: [&str; 4] = ["linux", "gpu", "lin", "q\"\\"];

/// A change without its numbers.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Job { name: usize, kind: usize, tags: usize, at: usize, on: usize },
    Delete(usize),
    Payload(usize, u8),
    Attempt(usize, u32, usize),
    Decision(usize, u32),
    Log(usize, u32, u8),
    Seen(usize, u32, u8),
    Event(Option<usize>),
    Cluster(usize, bool),
    DeleteCluster(usize),
    Orphan(usize, u32, bool),
    Policy(usize, u8),
    DeletePolicy(usize),
    Usage(usize, u8),
    DeleteUsage(usize),
}

#[derive(Debug, Clone)]
pub(crate) enum Round {
    Commit(Vec<Step>),
    Reopen,
    /// Reopen with a new key, or the first one.
    Rotate,
}

fn step() -> impl Strategy<Value = Step> {
    let name = 0..IDS.len();
    let on = 0..CLUSTERS.len();
    prop_oneof![
        6 => (name.clone(), 0..3usize, 0..16usize, 0..8usize, on.clone())
            .prop_map(|(name, kind, tags, at, on)| Step::Job { name, kind, tags, at, on }),
        2 => name.clone().prop_map(Step::Delete),
        2 => (name.clone(), any::<u8>()).prop_map(|(name, n)| Step::Payload(name, n)),
        2 => (name.clone(), 1..4u32, on.clone()).prop_map(|(name, n, on)| Step::Attempt(name, n, on)),
        2 => (name.clone(), 1..9u32).prop_map(|(name, n)| Step::Decision(name, n)),
        1 => (name.clone(), 1..4u32, any::<u8>()).prop_map(|(name, n, text)| Step::Log(name, n, text)),
        1 => (name.clone(), 1..4u32, any::<u8>()).prop_map(|(name, n, node)| Step::Seen(name, n, node)),
        2 => proptest::option::of(name.clone()).prop_map(Step::Event),
        1 => (on.clone(), any::<bool>()).prop_map(|(on, leaving)| Step::Cluster(on, leaving)),
        1 => on.prop_map(Step::DeleteCluster),
        1 => (name.clone(), 1..3u32, any::<bool>()).prop_map(|(name, n, there)| Step::Orphan(name, n, there)),
        1 => (name.clone(), any::<u8>()).prop_map(|(name, weight)| Step::Policy(name, weight)),
        1 => name.clone().prop_map(Step::DeletePolicy),
        2 => (name.clone(), any::<u8>()).prop_map(|(name, cpu)| Step::Usage(name, cpu)),
        1 => name.prop_map(Step::DeleteUsage),
    ]
}

pub(crate) fn rounds() -> impl Strategy<Value = Vec<Round>> {
    vec(
        prop_oneof![6 => vec(step(), 0..12).prop_map(Round::Commit), 1 => Just(Round::Reopen), 1 => Just(Round::Rotate)],
        1..12,
    )
}

/// Issues numbers as the core and the driver do.
#[derive(Default)]
pub(crate) struct Numbers {
    seq: u64,
    event: u64,
}

impl Numbers {
    pub(crate) fn change(&mut self, step: &Step) -> Change {
        match *step {
            Step::Job { name, kind, tags, at, on } => self.job(name, kind, tags, at, on),
            Step::Delete(name) => delete(IDS[name]),
            Step::Payload(name, n) => payload(IDS[name], a_payload(&format!("run {n}"))),
            Step::Attempt(name, n, on) => attempt(IDS[name], n, CLUSTERS[on]),
            Step::Decision(name, n) => decision(IDS[name], n),
            Step::Log(name, n, text) => Change::Logs(a_log(IDS[name], n, &text.to_string())),
            Step::Seen(name, n, node) => seen(IDS[name], n, &node.to_string()),
            Step::Event(name) => {
                self.event += 1;
                event(self.event, name.map(|name| IDS[name]))
            }
            Step::Cluster(on, leaving) => Change::Core(Write::Cluster(a_cluster(CLUSTERS[on], leaving))),
            Step::DeleteCluster(on) => Change::Core(Write::DeleteCluster(cluster(CLUSTERS[on]))),
            Step::Orphan(name, n, true) => Change::Core(Write::Orphan(an_orphan(IDS[name], n))),
            Step::Policy(name, weight) => Change::Core(Write::Policy(a_policy(IDS[name], f64::from(weight)))),
            Step::DeletePolicy(name) => Change::Core(Write::DeletePolicy(IDS[name].into())),
            Step::Usage(name, cpu) => Change::Core(Write::Usage(a_usage(IDS[name], cpu.into()))),
            Step::DeleteUsage(name) => Change::Core(Write::DeleteUsage(owner(IDS[name]))),
            Step::Orphan(name, n, false) => Change::Core(Write::DeleteOrphan(an_orphan(IDS[name], n))),
        }
    }

    fn job(&mut self, name: usize, kind: usize, tags: usize, at: usize, cluster: usize) -> Change {
        self.seq += 1;
        let carried: Vec<_> =
            (0..TAGS.len()).filter(|bit| tags >> bit & 1 == 1).map(|bit| TAGS[bit]).collect();
        let kind = [Kind::Job, Kind::Task, Kind::Actor][kind];
        let record = JobRecord { work: work(kind, &carried), ..queued(IDS[name], self.seq) };
        let cluster = CLUSTERS[cluster];
        job(match at {
            0..=2 => record,
            3 => on(&record, cluster, Stage::Sending),
            4 => on(&record, cluster, Stage::Pending),
            5 => on(&record, cluster, Stage::Running),
            6 => ended(&record, Some(cluster), State::Failed),
            _ => ended(&record, None, State::Stopped),
        })
    }
}

pub(crate) fn filters() -> impl Strategy<Value = JobFilter> {
    (
        vec(select(&State::ALL[..]), 0..3),
        proptest::option::of(select(&[Kind::Job, Kind::Task, Kind::Actor][..])),
        proptest::option::of(select(&CLUSTERS[..])),
        vec(select(&TAGS[..]), 0..2),
        proptest::option::of(select(&["a", "job", "-1", "zz"][..])),
        proptest::option::of(select(&["A", "Job", "echo", "zz"][..])),
    )
        .prop_map(|(states, kind, on, tags, part, text)| JobFilter {
            states,
            kind,
            cluster: on.map(cluster),
            owner: None,
            since: None,
            until: None,
            tags: tags.into_iter().map(|tag| Tag::new(tag).unwrap()).collect(),
            id_contains: part.map(Into::into),
            search: text.map(Search::new),
        })
}

/// The answers to all queries, in the order of [`Model::answers`].
pub(crate) fn answers(reader: &dyn Reader, filters: &[JobFilter], limit: usize) -> Vec<String> {
    let mut answers = Vec::new();
    for name in IDS.map(id) {
        answers.push(format!("{:?}", reader.job(&name).unwrap()));
        answers.push(format!("{:?}", reader.payload(&name).unwrap()));
        answers.push(format!("{:?}", reader.attempts(&name).unwrap()));
        let decisions = all(limit, |before| reader.decisions(Some(&name), before, limit));
        answers.push(format!("{decisions:?}"));
        let only = BTreeSet::from([name.clone()]);
        answers.push(format!("{:?}", reader.events(Some(&only), 3, limit).unwrap()));
        for attempt in [None, Some(Attempt(1)), Some(Attempt(2))] {
            answers.push(format!("{:?}", log(reader, &name, attempt)));
        }
    }
    answers.push(format!("{:?}", all(limit, |before| reader.decisions(None, before, limit))));
    answers.push(format!("{:?}", reader.events(None, 0, 1000).unwrap()));
    answers.extend(filters.iter().map(|filter| format!("{filter:?}: {:?}", ids(reader, filter, limit))));
    answers
}

proptest! {
    #![proptest_config(ProptestConfig { cases: crate::backend::CASES, ..ProptestConfig::default() })]

    #[test]
    fn a_store_holds_the_sum_of_all_writes_and_answers_as_the_model(
        rounds in rounds(), filters in vec(filters(), 1..4), limit in 1..5usize
    ) {
        let options = Options { decisions_per_job: 3, events: 20, ..Options::default() };
        let mut store = TestStore::new(options.clone());
        let mut model = Model::new(options);
        let mut durable = Durable::default();
        let mut numbers = Numbers::default();
        for round in &rounds {
            match round {
                Round::Reopen => store.reopen(),
                Round::Rotate => store.rotate(),
                Round::Commit(steps) => {
                    let changes: Vec<_> = steps.iter().map(|step| numbers.change(step)).collect();
                    for change in &changes {
                        if let Change::Core(write) = change {
                            durable.apply(write);
                        }
                    }
                    store.commit(changes.clone());
                    model.commit(&changes);
                }
            }
        }
        for _ in 0..2 {
            let loaded = store.store().load().unwrap();
            prop_assert_eq!(&loaded.durable, &durable);
            prop_assert_eq!(loaded.next_event, numbers.event + 1);
            prop_assert_eq!(answers(&*store.reader(), &filters, limit), model.answers(&IDS, &filters, limit));
            store.reopen();
        }
    }
}
