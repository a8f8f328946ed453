//! Random actions of callers and operators.

use multicluster_core::{Accepted, Duplicate, Identity, Input, Parent, Reply, Submission};
use multicluster_types::{
    ClusterName, ContentHash, ExitCodes, GroupId, JobId, Kind, LabelSelector, Labels, Lang, OnClusterLoss,
    Origin, Owner, Platform, PlatformName, PolicyRule, PolicySpec, Preference, Priority, Resources, Retry,
    RetryCodes, Share, Span, State, Tags, Work,
};
use rand::RngExt;

use crate::{
    plan::{self, chance, pick},
    ray::FakeRay,
    world::World,
};

const DEMANDS: &[&[(&str, f64)]] = &[
    &[],
    &[("CPU", 1.0)],
    &[("CPU", 2.0)],
    &[("CPU", 4.0), ("memory", 8e9)],
    &[("CPU", 0.5), ("GPU", 1.0)],
    &[("CPU", 12.0)],
    &[("licence", 1.0)],
];
/// `retry_on` and `never_retry_on`.
const CODES: &[(&[i64], &[i64])] = &[(&[], &[]), (&[], &[]), (&[1, -9], &[]), (&[], &[2]), (&[1], &[2])];
const TAGS: &[&[&str]] = &[&[], &["linux"], &["macos", "fund"], &["gpu"], &["tradebot"]];

impl World {
    /// One action of a caller or an operator.
    pub fn act_as_client(&mut self) {
        match self.rng.random_range(0..100) {
            0..45 => self.submit_one(),
            45..50 => self.submit_batch(),
            50..56 => self.submit_again(),
            56..64 => self.with_a_job(|job| Input::Stop { job }),
            64..67 => self.rerun(),
            67..68 => self.delete(),
            68..72 => self.cordon_or_not(),
            72..74 => self.change_pool(),
            74..76 => self.change_settings(),
            76..80 => self.ask_about(),
            80..81 if self.faults.crash > 0 => self.restart_control_plane(),
            81..83 => self.change_policies(),
            _ => {}
        }
    }

    /// The clock may have run ahead, and may be right again now.
    fn restart_control_plane(&mut self) {
        if chance(&mut self.rng, 50) {
            let ahead = *pick(&mut self.rng, &[Span::seconds(20), Span::minutes(10), Span::minutes(180)]);
            self.correct_clock(ahead);
        }
        self.crash();
    }

    fn some_job(&mut self) -> Option<JobId> {
        let jobs: Vec<_> = self.core.jobs().map(|record| record.id.clone()).collect();
        (!jobs.is_empty()).then(|| pick(&mut self.rng, &jobs).clone())
    }

    fn some_cluster(&mut self) -> Option<ClusterName> {
        let names: Vec<_> = self.core.clusters().map(|c| c.spec.name.clone()).collect();
        (!names.is_empty()).then(|| pick(&mut self.rng, &names).clone())
    }

    fn with_a_job(&mut self, input: impl FnOnce(JobId) -> Input) {
        if let Some(job) = self.some_job() {
            self.tell(input(job));
        }
    }

    fn delete(&mut self) {
        if let Some(job) = self.some_job() {
            self.oracle.told_delete(&job);
            self.tell(Input::Delete { job });
        }
    }

    fn work(&mut self) -> Work {
        let kind = *pick(&mut self.rng, &[Kind::Job, Kind::Job, Kind::Job, Kind::Task, Kind::Actor]);
        let (demand, tags) = (pick(&mut self.rng, DEMANDS), pick(&mut self.rng, TAGS));
        let preference = match self.rng.random_range(0..10) {
            0..3 => self.some_cluster().map(|cluster| Preference { cluster, required: false }),
            3 => self.some_cluster().map(|cluster| Preference { cluster, required: true }),
            _ => None,
        };
        let (only, never) = *pick(&mut self.rng, CODES);
        let codes = [only, never].map(|codes| ExitCodes::new(codes.iter().copied()).unwrap());
        let retry = Retry {
            codes: Some(codes)
                .filter(|codes| codes.iter().any(|codes| !codes.is_empty()))
                .map(|[only, never]| Box::new(RetryCodes::new(only, never).unwrap())),
            max_retries: *pick(&mut self.rng, &[0, 0, 2]),
            on_cluster_loss: *pick(
                &mut self.rng,
                &[OnClusterLoss::Wait, OnClusterLoss::Wait, OnClusterLoss::Requeue],
            ),
        };
        let demand = Resources::from_amounts(demand.iter().copied()).unwrap();
        // Half of the jobs are like the users': they need resources that their drivers do not reserve.
        let reserves = (kind == Kind::Job && chance(&mut self.rng, 50)).then(|| {
            let cpus = if chance(&mut self.rng, 30) { demand.cpu.as_f64().min(1.0) } else { 0.0 };
            Resources::from_amounts([("CPU", cpus)]).unwrap()
        });
        let reserves = reserves.filter(|reserves| *reserves != demand).map(Box::new);
        let arch = |arch| Platform { os: None, arch: PlatformName::new(arch).ok() };
        let platform = chance(&mut self.rng, 8).then(|| Box::new(arch("arm64")));
        let zone = || Labels::from([("zone".to_owned(), "in(a, b)".to_owned())]);
        let labels = chance(&mut self.rng, 8).then(|| Box::new(LabelSelector::try_from(zone()).unwrap()));
        Work {
            kind,
            demand,
            reserves,
            labels,
            platform,
            tags: Tags::new(*tags).unwrap(),
            preference,
            origin: Origin::Outside,
            group: None,
            priority: Priority(*pick(&mut self.rng, &[0, 0, 0, 5, -5])),
            retry,
            versions: None,
            preemptible: kind == Kind::Job && chance(&mut self.rng, 40),
            owner: pick(&mut self.rng, &[None, None, Some("ann"), Some("bob")])
                .map(|o| Owner::new(o).unwrap()),
        }
    }

    fn submission(&mut self) -> Submission {
        self.submitted += 1;
        let id = JobId::new(format!("j{}", self.submitted)).unwrap();
        let id = if chance(&mut self.rng, 50) { Identity::Given(id) } else { Identity::Fresh(id) };
        let content = match self.rng.random_range(0..4) {
            0 => None,
            1 => Some(ContentHash::of(["the same for many"])),
            _ => Some(ContentHash::of([format!("content of {}", self.submitted)])),
        };
        let mut work = self.work();
        let parent = if chance(&mut self.rng, 20) { self.running_parent() } else { None };
        if let Some(parent) = parent.as_ref().filter(|_| chance(&mut self.rng, 90)) {
            work.owner = self.core.job(&parent.job).and_then(|record| record.work.owner.clone());
        }
        let bytes = if work.kind == Kind::Job { self.rng.random_range(0..200_000) } else { 0 };
        Submission { id, work, content, bytes, parent }
    }

    fn running_parent(&mut self) -> Option<Parent> {
        let running = self.core.jobs().filter_map(|record| {
            let live = record.live().filter(|_| record.state() == State::Running)?;
            Some(Parent { job: record.id.clone(), cluster: live.cluster.clone() })
        });
        let running: Vec<_> = running.collect();
        (!running.is_empty()).then(|| pick(&mut self.rng, &running).clone())
    }

    fn submit_one(&mut self) {
        let submission = self.submission();
        let expected = submission.id.clone();
        match self.tell(Input::Submit(submission)) {
            Some(Ok(Reply::Accepted(accepted))) => self.note_accepted(&expected, &accepted),
            Some(Err(_)) => assert!(self.core.job(expected.id()).is_none(), "refused, and kept all the same"),
            other => panic!("{other:?}"),
        }
    }

    fn note_accepted(&mut self, expected: &Identity, accepted: &Accepted) {
        match accepted.duplicate {
            None => assert_eq!(accepted.job, *expected.id(), "its id for life"),
            Some(Duplicate::SameContent) => {
                assert!(matches!(expected, Identity::Fresh(_)), "only without an id of one's own");
            }
            Some(Duplicate::SameId) => assert_eq!(accepted.job, *expected.id()),
        }
        self.oracle.told_accepted(&accepted.job);
        self.wait_for(&accepted.job);
    }

    fn submit_batch(&mut self) {
        let work = self.work();
        self.submitted += 1;
        let group = Some(GroupId::new(format!("g{}", self.submitted)).unwrap());
        let count = self.rng.random_range(1..8);
        let batch: Vec<_> = (0..count)
            .map(|n| Submission {
                id: Identity::Given(JobId::new(format!("b{}-{n}", self.submitted)).unwrap()),
                work: Work { kind: Kind::Task, group: group.clone(), ..work.clone() },
                content: None,
                bytes: 0,
                parent: None,
            })
            .collect();
        let ids: Vec<_> = batch.iter().map(|s| s.id.clone()).collect();
        let batch = Input::Together(batch.into_iter().map(Input::Submit).collect());
        let Some(Ok(Reply::Each(each))) = self.tell(batch) else { panic!("a batch is answered") };
        assert_eq!(each.len(), ids.len());
        for (id, answer) in ids.iter().zip(each) {
            if let Ok(Reply::Accepted(accepted)) = answer {
                self.note_accepted(id, &accepted);
            }
        }
    }

    /// The same id again, with the same content or another.
    fn submit_again(&mut self) {
        let Some(job) = self.some_job() else { return };
        let record = self.core.job(&job).unwrap();
        if record.parent.is_some() {
            return;
        }
        let mut work = (*record.work).clone();
        let (content, before) = (record.content, record.clone());
        let other = chance(&mut self.rng, 30);
        if other {
            work.priority = Priority(work.priority.0 + 1);
        }
        let again = Submission { id: Identity::Given(job.clone()), work, content, bytes: 0, parent: None };
        match self.tell(Input::Submit(again)) {
            Some(Ok(Reply::Accepted(accepted))) => {
                assert!(!other && accepted.duplicate == Some(Duplicate::SameId) && accepted.job == job);
            }
            Some(Err(refusal)) => assert!(other && refusal.code() == "conflict", "{refusal}"),
            reply => panic!("{reply:?}"),
        }
        if let Some(after) = self.core.job(&job) {
            assert_eq!(after.seq, before.seq, "submitting again changes nothing");
        }
    }

    fn rerun(&mut self) {
        let Some(job) = self.some_job() else { return };
        if self.is_task(&job) {
            return;
        }
        // The oracle learns of it first: the core may dispatch the job at once.
        self.oracle.told_rerun(&job);
        self.tell(Input::Rerun { job });
    }

    fn cordon_or_not(&mut self) {
        let Some(cluster) = self.some_cluster() else { return };
        let drain = chance(&mut self.rng, 30);
        let input = match self.rng.random_range(0..3) {
            0 => Input::Cordon { cluster, note: Some("maintenance".into()), drain },
            _ => Input::Uncordon { cluster },
        };
        self.tell(input);
    }

    fn change_pool(&mut self) {
        if chance(&mut self.rng, 50) {
            let number = self.rng.random_range(0..6);
            let (spec, shape) = plan::cluster(&mut self.rng, number);
            self.rays.entry(spec.name.clone()).or_insert_with(|| FakeRay::new(shape));
            if self.core.cluster(&spec.name).is_some_and(|known| *known.spec != spec) {
                self.replace_lane(&spec.name);
            }
            self.tell(Input::Register { spec: Box::new(spec), replace: true });
        } else if self.core.clusters().count() > 1
            && let Some(cluster) = self.some_cluster()
        {
            let force = chance(&mut self.rng, 30);
            self.tell(Input::Remove { cluster, force });
        }
    }

    fn change_settings(&mut self) {
        let mut settings = self.core.settings().clone();
        match self.rng.random_range(0..5) {
            4 => settings.shares = plan::shares(&mut self.rng),
            0 => {
                settings.submission_interval =
                    *pick(&mut self.rng, &[Span::seconds(40), Span::seconds(1), Span::ZERO])
            }
            1 => {
                settings.resource_threshold = *pick(&mut self.rng, &[Share::percent(70), Share::percent(90)])
            }
            2 => settings.starvation_after = Span::seconds(20),
            _ => settings.retain_for = *pick(&mut self.rng, &[Span::minutes(5), Span::minutes(60)]),
        }
        let clusters = self.core.clusters().map(|c| (*c.spec).clone()).collect();
        self.tell(Input::Reload { settings: Box::new(settings), clusters });
    }

    /// Changes scores only: the oracle would treat work held back by a filter as forgotten.
    fn change_policies(&mut self) {
        let name = *pick(&mut self.rng, &["spread", "mine", "other"]);
        if chance(&mut self.rng, 40) {
            self.tell(Input::RemovePolicy { name: name.into(), by: None });
            return;
        }
        let expressions =
            ["1.0 - load_cpu", "free['licence'] / 4.0", "now.getMinutes() % 2 == 0 ? 1.0 : 0.0", "nonsense"];
        let rule = match name {
            "spread" => PolicyRule::BuiltIn { weight: 1.0 },
            _ => PolicyRule::Score { expression: (*pick(&mut self.rng, &expressions)).into(), weight: 0.5 },
        };
        self.tell(Input::SetPolicy { spec: Box::new(PolicySpec { name: name.into(), rule }), by: None });
    }

    /// Queries must not change anything.
    fn ask_about(&mut self) {
        let before = (self.core.durable(), self.core.next_wakeup());
        let work = self.work();
        let prediction = self.core.what_if(&work, None);
        if let Some(job) = self.some_job() {
            assert!(!self.core.explain(&job).unwrap().summary(Lang::Zh).is_empty());
        }
        assert!(before == (self.core.durable(), self.core.next_wakeup()), "a look changed something");
        // The prediction must match the outcome.
        self.submitted += 1;
        let id = JobId::new(format!("w{}", self.submitted)).unwrap();
        let submission =
            Submission { id: Identity::Given(id.clone()), work, content: None, bytes: 0, parent: None };
        match self.tell(Input::Submit(submission)) {
            Some(Ok(_)) => {
                self.oracle.told_accepted(&id);
                self.wait_for(&id);
                assert_eq!(prediction.refused, None);
                let live = self.oracle.store.jobs[&id].live().map(|live| live.cluster.clone());
                assert_eq!(live, prediction.chosen, "what_if and submit disagree");
            }
            _ => assert!(prediction.refused.is_some(), "what_if and submit disagree"),
        }
    }
}
