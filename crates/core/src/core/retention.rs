//! Ended work is kept for a limited time, and up to a limited number: per owner, jobs apart from
//! tasks and actors.

use multicluster_types::{Kind, Span, Timestamp};

use crate::{
    Core, Effect, Output, Write,
    jobs::{JobKey, Shelf},
    record::Phase,
    timers::{Due, Timer, Timers},
};

/// Ended work is known for at least this long, however much there is: a client that got no answer
/// repeats its id, and an id that is forgotten would run again.
const KEEP_AT_LEAST: Span = Span::minutes(5);

/// When the first of the ended jobs expires, or earlier.
#[derive(Debug, Default)]
pub(super) struct Retention {
    due: Due,
}

impl Retention {
    /// Wakes at this time, or earlier if an earlier wake-up is set.
    pub(super) fn watch(&mut self, at: Timestamp, timers: &mut Timers) {
        if self.due.is_none_or(|due| at < due) {
            timers.set(&mut self.due, Timer::Retention, at);
        }
    }

    /// The timer went off.
    pub(super) fn time_came(&mut self) {
        self.due = None;
    }
}

impl Core {
    /// Forgets ended work beyond what the settings retain.
    pub(super) fn forget_old(&mut self, out: &mut Output) {
        for shelf in self.jobs.shelves() {
            self.forget_old_on(&shelf, out);
        }
    }

    /// The same on one shelf.
    pub(super) fn forget_old_on(&mut self, shelf: &Shelf, out: &mut Output) {
        if self.is_rewound() {
            return; // Its later runs would not be recognised.
        }
        while let Some((at, key, count)) = self.jobs.oldest_on(shelf) {
            let too_many = count > self.settings.retain_finished as usize;
            let keep = if too_many { KEEP_AT_LEAST } else { self.settings.retain_for.max(KEEP_AT_LEAST) };
            if at + keep > self.now {
                return self.retention.watch(at + keep, &mut self.timers);
            }
            self.forget(key, out);
        }
    }

    /// Forgets one ended job.
    pub(super) fn forget(&mut self, key: JobKey, out: &mut Output) {
        self.unlink(key, out);
        let job = self.jobs.remove(key);
        if let Some(mut class) = self.queue.part(job.class) {
            self.timers.clear(&mut class.starving_due, Timer::Starving(job.class));
        }
        let record = job.record();
        if let (Phase::Ended(ended), Kind::Job) = (&record.phase, record.work.kind)
            && let Some(cluster) = &ended.cluster
        {
            out.effects.push(Effect::Forget { run: job.run(), cluster: cluster.clone() });
        }
        out.writes.push(Write::DeleteJob(record.id.clone()));
    }
}
