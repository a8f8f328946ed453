//! Ended jobs are kept for a limited time, and up to a limited number.

use multicluster_types::{Kind, Timestamp};

use crate::{
    Core, Effect, Output, Write,
    jobs::JobKey,
    record::Phase,
    timers::{Due, Timer, Timers},
};

/// When the oldest of the ended jobs expires, or earlier.
#[derive(Debug, Default)]
pub(super) struct Retention {
    due: Due,
}

impl Retention {
    /// Wakes at this time, unless an earlier wake-up is set: that one comes first.
    pub(super) fn watch(&mut self, at: Timestamp, timers: &mut Timers) {
        if self.due.is_none() {
            self.look_at(at, timers);
        }
    }

    /// Wakes at this time, whatever was set before.
    pub(super) fn look_at(&mut self, at: Timestamp, timers: &mut Timers) {
        timers.set(&mut self.due, Timer::Retention, at);
    }

    /// The timer went off.
    pub(super) fn time_came(&mut self) {
        self.due = None;
    }
}

impl Core {
    /// Forgets ended jobs beyond what the settings retain.
    pub(super) fn forget_old(&mut self, out: &mut Output) {
        while let Some((at, key, count)) = self.jobs.oldest_ended() {
            let expires = at + self.settings.retain_for;
            if expires > self.now && count <= self.settings.retain_finished as usize {
                self.retention.look_at(expires, &mut self.timers);
                return;
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
