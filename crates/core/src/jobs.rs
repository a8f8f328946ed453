//! The table of all work the core knows, by key, id and content.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use multicluster_types::{
    Attempt, ClusterName, ContentHash, ImpossibleTransition, JobId, Kind, Message, NotRetried, Owner,
    Timestamp,
};
use slab::Slab;

use crate::{
    LookupOutcome, Pushing, Run,
    index::Index,
    payloads::Payloads,
    pool::ClusterKey,
    queue::{ClassKey, Rank},
    record::{JobRecord, Live, Phase, Step, Unsuited},
    timers::Due,
};

/// A job's place in the table. Reused after the job is forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct JobKey(pub(crate) u32);

/// One job: its durable record, and what is rebuilt from it.
#[derive(Debug)]
pub(crate) struct Job {
    record: JobRecord,
    pub(crate) class: ClassKey,
    /// The cluster of `record.live()`.
    pub(crate) on: Option<ClusterKey>,
    pub(crate) due: Due,
    /// When a live attempt was last sent, asked about or heard of; for a queued placement, when
    /// its caller was last heard of.
    pub(crate) touched_at: Timestamp,
    /// How many lookups had no useful answer.
    pub(crate) asks: u8,
    /// Fences lookups: no answer counts after other news moved the attempt on.
    pub(crate) question: Option<Question>,
    /// While the packages of an attempt are being pushed, before it is sent.
    pub(crate) pushing: Option<Pushing>,
}

/// A lookup that has no answer so far, and its repetitions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Question {
    pub(crate) first: u32,
    pub(crate) latest: u32,
}

impl Question {
    /// Does this outcome of the lookup with this number count? A run that was found is there,
    /// however often the question was repeated since. A run that was not found may have arrived
    /// before the question was repeated. A tombstone stays where it is.
    pub(crate) fn counts(self, number: u32, outcome: &LookupOutcome) -> bool {
        match outcome {
            LookupOutcome::Found(_) | LookupOutcome::Buried { .. } => {
                (self.first..=self.latest).contains(&number)
            }
            LookupOutcome::NotFound { .. } | LookupOutcome::Taken { .. } | LookupOutcome::NoAnswer => {
                number == self.latest
            }
        }
    }
}

impl Job {
    /// The durable part. Only the functions of this module change it.
    #[inline]
    pub(crate) fn record(&self) -> &JobRecord {
        &self.record
    }

    /// The attempt on a cluster, if there is one.
    #[inline]
    pub(crate) fn live(&self) -> Option<&Live> {
        self.record.live()
    }

    /// Does the control plane run it? Tasks and actors are run by their callers.
    #[inline]
    pub(crate) fn is_job(&self) -> bool {
        self.record.work.kind == Kind::Job
    }

    /// Its latest attempt.
    pub(crate) fn run(&self) -> Run {
        self.record.run()
    }

    /// Its place in the order of choice.
    pub(crate) fn rank(&self) -> Rank {
        Rank::new(self.record.work.priority, self.record.seq)
    }

    /// Clusters where the job failed to start: others go first.
    pub(crate) fn avoid(&self) -> &[ClusterName] {
        self.record.troubles.as_ref().map_or(&[], |troubles| &troubles.avoid)
    }

    /// Clusters that cannot accept the job.
    pub(crate) fn unsuited(&self) -> &[Unsuited] {
        self.record.troubles.as_ref().map_or(&[], |troubles| &troubles.unsuited)
    }

    /// Changes the attempt, see [`Live::apply`]. News of the attempt's state cancels an open question.
    pub(crate) fn apply(&mut self, step: Step, now: Timestamp) -> Result<bool, ImpossibleTransition> {
        let from = self.record.state();
        let Phase::Live(live) = &mut self.record.phase else {
            return Err(ImpossibleTransition { from, transition: step.transition() });
        };
        let changed = live.apply(step, now)?;
        if self.record.state() != from {
            (self.question, self.pushing) = (None, None);
        }
        Ok(changed)
    }

    /// Is it being stopped for other work?
    pub(crate) fn is_preempted(&self) -> bool {
        self.live().is_some_and(Live::preempted)
    }

    /// It was stopped for other work.
    pub(crate) fn note_preempted(&mut self) {
        self.record.troubles.get_or_insert_default().preemptions += 1;
    }

    /// The number of the attempt after the latest.
    pub(crate) fn next_attempt(&self) -> Attempt {
        Attempt(self.record.attempts + 1)
    }

    /// Records why the job is not further than it is.
    pub(crate) fn note_error(&mut self, error: &Message) {
        self.record.troubles.get_or_insert_default().last_error = Some(error.clone());
    }

    /// A cluster cannot accept the job. The job does not wait for it, even if it prefers it.
    pub(crate) fn note_unsuited(&mut self, unsuited: Unsuited) {
        let troubles = self.record.troubles.get_or_insert_default();
        if !troubles.avoid.contains(&unsuited.cluster) {
            troubles.avoid.push(unsuited.cluster.clone());
        }
        troubles.unsuited.retain(|known| known.cluster != unsuited.cluster);
        troubles.unsuited.push(unsuited);
    }

    /// An attempt never started there. Returns how many in a row did not.
    pub(crate) fn note_not_started(&mut self, cluster: &ClusterName) -> u32 {
        let troubles = self.record.troubles.get_or_insert_default();
        troubles.dispatch_failures += 1;
        if !troubles.avoid.contains(cluster) {
            troubles.avoid.push(cluster.clone());
        }
        troubles.dispatch_failures
    }

    /// An attempt ran and failed with this exit code.
    pub(crate) fn note_run_failed(&mut self, exit_code: Option<i64>) -> AfterFailure {
        let retry = &self.record.work.retry;
        let failures = self.record.troubles.as_ref().map_or(0, |troubles| troubles.run_failures);
        if failures >= retry.max_retries {
            return AfterFailure::UsedUp;
        }
        if let Some(Err(why)) = retry.codes.as_ref().map(|codes| codes.check(exit_code)) {
            return AfterFailure::Excluded(why);
        }
        self.record.troubles.get_or_insert_default().run_failures = failures + 1;
        AfterFailure::Retry(failures + 1)
    }

    /// An attempt was seen running: dispatching works.
    pub(crate) fn note_started(&mut self) {
        if let Some(troubles) = &mut self.record.troubles {
            troubles.dispatch_failures = 0;
            troubles.avoid.clear();
        }
    }

    /// An operator wants the job run again, whatever went wrong before.
    pub(crate) fn forget_troubles(&mut self) {
        self.record.troubles = None;
    }
}

/// What becomes of a job after an attempt ran and failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterFailure {
    /// It is run again; so many attempts have failed.
    Retry(u32),
    /// It may not be run again.
    UsedUp,
    /// It may be run again, but not after this exit code.
    Excluded(NotRetried),
}

/// Ended work that is counted together: one owner's, jobs apart from tasks and actors. So nobody's
/// work pushes the history of others out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Shelf {
    owner: Option<Owner>,
    jobs: bool,
}

impl Shelf {
    fn of(record: &JobRecord) -> Self {
        Self { owner: record.work.owner.clone(), jobs: record.work.kind == Kind::Job }
    }
}

/// All jobs.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    table: Slab<Job>,
    by_id: Index<JobId, JobKey>,
    /// Only queued jobs: an identical submission finds them.
    by_content: Index<(ContentHash, ClassKey), JobKey>,
    /// More queued jobs of the same content (with ids from their callers), in order: the next one
    /// takes over when the first has left.
    more_of_content: BTreeSet<(ContentHash, ClassKey, u64, JobKey)>,
    /// Ended work, oldest first. No shelf is empty.
    ended: BTreeMap<Shelf, BTreeSet<(Timestamp, u64, JobKey)>>,
    /// Of jobs that have not ended.
    payloads: Payloads,
    next_seq: u64,
    next_question: u32,
}

impl Jobs {
    pub(crate) fn add(&mut self, record: JobRecord, class: ClassKey) -> JobKey {
        self.next_seq = self.next_seq.max(record.seq + 1);
        let id = record.id.clone();
        let touched_at = record.submitted_at;
        let job =
            Job { record, class, on: None, due: None, touched_at, asks: 0, question: None, pushing: None };
        let key = JobKey(u32::try_from(self.table.insert(job)).expect("fewer than 2^32 jobs fit in memory"));
        self.by_id.insert(id, key);
        self.file(key);
        key
    }

    pub(crate) fn remove(&mut self, key: JobKey) -> Job {
        self.unfile(key);
        let job = self.table.remove(key.0 as usize);
        self.by_id.remove(&job.record.id);
        job
    }

    pub(crate) fn find(&self, id: &JobId) -> Option<JobKey> {
        self.by_id.get(id)
    }

    pub(crate) fn find_waiting(&self, content: ContentHash, class: ClassKey) -> Option<JobKey> {
        self.by_content.get(&(content, class))
    }

    /// The next place in the order of acceptance.
    pub(crate) fn take_seq(&mut self) -> u64 {
        self.next_seq += 1;
        self.next_seq - 1
    }

    /// A number that no open lookup has.
    pub(crate) fn next_question(&mut self) -> u32 {
        self.next_question = self.next_question.wrapping_add(1);
        self.next_question
    }

    /// Moves a job to another phase.
    pub(crate) fn set_phase(&mut self, key: JobKey, phase: Phase) {
        self.unfile(key);
        let record = &mut self.table[key.0 as usize].record;
        match (&record.phase, &phase) {
            (Phase::Ended(_), Phase::Waiting { .. }) => {
                // The job joins the end of the queue, like any new submission.
                record.seq = self.next_seq;
                self.next_seq += 1;
            }
            (_, Phase::Live(live)) => record.attempts = live.attempt.0,
            _ => {}
        }
        record.phase = phase;
        self.file(key);
    }

    /// Adds the job to the indexes that its phase belongs in.
    fn file(&mut self, key: JobKey) {
        let job = &self.table[key.0 as usize];
        if !matches!(job.record.phase, Phase::Ended(_)) {
            self.payloads.add(job.record.work.owner.as_ref(), job.record.bytes);
        }
        match (&job.record.phase, job.record.content) {
            (Phase::Waiting { .. }, Some(content)) => {
                if self.by_content.get(&(content, job.class)).is_none() {
                    self.by_content.insert((content, job.class), key);
                } else {
                    self.more_of_content.insert((content, job.class, job.record.seq, key));
                }
            }
            (Phase::Ended(ended), _) => {
                let shelf = self.ended.entry(Shelf::of(&job.record)).or_default();
                shelf.insert((ended.at, job.record.seq, key));
            }
            _ => {}
        }
    }

    /// Undoes [`Jobs::file`], before the phase changes.
    fn unfile(&mut self, key: JobKey) {
        let job = &self.table[key.0 as usize];
        if !matches!(job.record.phase, Phase::Ended(_)) {
            self.payloads.remove(job.record.work.owner.as_ref(), job.record.bytes);
        }
        match (&job.record.phase, job.record.content) {
            (Phase::Waiting { .. }, Some(content)) => {
                let (class, seq) = (job.class, job.record.seq);
                if self.by_content.get(&(content, class)) != Some(key) {
                    self.more_of_content.remove(&(content, class, seq, key));
                } else if let Some(next) = self.next_of_content(content, class) {
                    self.more_of_content.remove(&next);
                    self.by_content.insert((content, class), next.3);
                } else {
                    self.by_content.remove(&(content, class));
                }
            }
            (Phase::Ended(ended), _) => {
                if let Entry::Occupied(mut shelf) = self.ended.entry(Shelf::of(&job.record)) {
                    shelf.get_mut().remove(&(ended.at, job.record.seq, key));
                    if shelf.get().is_empty() {
                        shelf.remove();
                    }
                }
            }
            _ => {}
        }
    }

    fn next_of_content(
        &self,
        content: ContentHash,
        class: ClassKey,
    ) -> Option<(ContentHash, ClassKey, u64, JobKey)> {
        let next = self.more_of_content.range((content, class, 0, JobKey(0))..).next()?;
        ((next.0, next.1) == (content, class)).then_some(*next)
    }

    /// Ended work, per owner and kind in the order in which it ended.
    pub(crate) fn by_end(&self) -> Vec<JobKey> {
        self.ended.values().flatten().map(|(_, _, key)| *key).collect()
    }

    /// The shelves with ended work.
    pub(crate) fn shelves(&self) -> Vec<Shelf> {
        self.ended.keys().cloned().collect()
    }

    /// The shelf that a job is on, or will be on when it has ended.
    pub(crate) fn shelf_of(&self, key: JobKey) -> Shelf {
        Shelf::of(&self[key].record)
    }

    /// The work on a shelf that ended first, and how much there is.
    pub(crate) fn oldest_on(&self, shelf: &Shelf) -> Option<(Timestamp, JobKey, usize)> {
        let ended = self.ended.get(shelf)?;
        ended.first().map(|&(at, _, key)| (at, key, ended.len()))
    }

    pub(crate) fn payloads(&self) -> &Payloads {
        &self.payloads
    }

    pub(crate) fn ended_count(&self) -> usize {
        self.ended.values().map(BTreeSet::len).sum()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (JobKey, &Job)> {
        #[expect(clippy::cast_possible_truncation, reason = "keys are handed out as u32")]
        self.table.iter().map(|(key, job)| (JobKey(key as u32), job))
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if self.by_id.len() != self.table.len() {
            return Err(format!("{} jobs, {} ids", self.table.len(), self.by_id.len()));
        }
        let ended = self.iter().filter(|(_, job)| matches!(job.record.phase, Phase::Ended(_))).count();
        let filed = self.by_content.len() + self.more_of_content.len();
        let with_content =
            |job: &Job| matches!(job.record.phase, Phase::Waiting { .. }) && job.record.content.is_some();
        let waiting = self.iter().filter(|(_, job)| with_content(job)).count();
        if filed != waiting {
            return Err(format!("{filed} contents of {waiting} waiting jobs with content"));
        }
        if self.ended_count() != ended {
            return Err(format!("{ended} jobs ended, {} are filed so", self.ended_count()));
        }
        let mut payloads = Payloads::default();
        for (_, job) in self.iter().filter(|(_, job)| !matches!(job.record.phase, Phase::Ended(_))) {
            payloads.add(job.record.work.owner.as_ref(), job.record.bytes);
        }
        if self.payloads != payloads {
            return Err(format!("payloads are {payloads:?}, {:?} are counted", self.payloads));
        }
        Ok(())
    }
}

impl std::ops::Index<JobKey> for Jobs {
    type Output = Job;
    fn index(&self, key: JobKey) -> &Job {
        &self.table[key.0 as usize]
    }
}

impl std::ops::IndexMut<JobKey> for Jobs {
    fn index_mut(&mut self, key: JobKey) -> &mut Job {
        &mut self.table[key.0 as usize]
    }
}
