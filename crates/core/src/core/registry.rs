//! Policies that operators register while the scheduler runs, in addition to those of the settings. Both
//! are in force together; policies of the settings can only be changed in the settings.

use std::collections::BTreeMap;

use multicluster_types::{Message, Owner, PolicySpec, Settings, Timestamp, Work};

use crate::{
    Core, Event, Output, Parent, PolicyChange, Refusal, WhatIf, Write,
    jobs::JobKey,
    look::View,
    policy::{self, Moment, Policies, Uses},
    record::Phase,
    timers::{Due, Timer},
};

/// Every policy. In force are the policies of the settings, and the registered ones that can be
/// used beside them.
#[derive(Debug)]
pub(super) struct Registry {
    in_force: Policies,
    /// In addition to those of the settings.
    registered: BTreeMap<Message, PolicySpec>,
    /// When work is looked at again because a policy uses the time.
    due: Due,
    /// Since when the longest-waiting head is queued, if a policy uses that.
    oldest: Option<Timestamp>,
}

impl Registry {
    pub(super) fn of_settings(settings: &Settings) -> Result<Self, Refusal> {
        let in_force = Policies::of_settings(settings)?;
        Ok(Self { in_force, registered: BTreeMap::new(), due: None, oldest: None })
    }

    pub(super) fn rebuild(
        settings: &Settings,
        registered: BTreeMap<Message, PolicySpec>,
    ) -> Result<Self, Refusal> {
        let mut registry = Self { registered, ..Self::of_settings(settings)? };
        registry.reload(settings)?;
        Ok(registry)
    }

    /// The settings changed. Returns the registered policies that cannot be in force beside the
    /// new settings, with the reason.
    pub(super) fn reload(&mut self, settings: &Settings) -> Result<Vec<(Message, Message)>, Refusal> {
        policy::check_count(settings.policies.len())?;
        let unusable = self.unusable(settings);
        let usable =
            self.registered.values().filter(|spec| !unusable.iter().any(|(name, _)| *name == spec.name));
        self.in_force = Policies::compile(settings.policies.iter().chain(usable))?;
        Ok(unusable)
    }

    /// The registered policies that cannot be in force beside these settings, and why. A policy
    /// of the settings replaces a registered one of the same name.
    pub(super) fn unusable(&self, settings: &Settings) -> Vec<(Message, Message)> {
        let why = |spec: &PolicySpec| -> Option<Message> {
            if settings.policies.iter().any(|own| own.name == spec.name) {
                return Some("the settings now have a policy of this name".into());
            }
            // E.g. it uses a name that only an earlier version had.
            policy::check(spec).err().map(|error| error.to_string().into())
        };
        self.registered.values().filter_map(|spec| Some((spec.name.clone(), why(spec)?))).collect()
    }

    pub(super) fn in_force(&self) -> &Policies {
        &self.in_force
    }

    pub(super) fn registered(&self) -> &BTreeMap<Message, PolicySpec> {
        &self.registered
    }

    #[inline]
    pub(super) fn uses(&self) -> Uses {
        self.in_force.uses()
    }

    /// The timer went off.
    pub(super) fn time_came(&mut self) {
        self.due = None;
    }
}

impl Core {
    /// The policies that were registered in addition to those of the settings, by name.
    pub fn registered_policies(&self) -> impl Iterator<Item = &PolicySpec> {
        self.policies.registered.values()
    }

    /// Adds a policy, or replaces one.
    pub(super) fn set_policy(
        &mut self,
        spec: PolicySpec,
        by: Option<Owner>,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        if self.is_of_settings(&spec.name) {
            return Err(Refusal::FilePolicy { name: spec.name, verb: "replace" });
        }
        let Registry { in_force, registered, .. } = &mut self.policies;
        if registered.get(&spec.name) == Some(&spec) {
            return Ok(());
        }
        let others = registered.values().filter(|other| other.name != spec.name);
        let all: Vec<_> = others.cloned().chain([spec.clone()]).collect();
        policy::check_count(all.len())?;
        *in_force = Policies::compile(self.settings.policies.iter().chain(&all))?;
        let rule = spec.rule.clone();
        out.writes.push(Write::Policy(spec.clone()));
        let name = spec.name.clone();
        let change = match registered.insert(name.clone(), spec) {
            None => PolicyChange::Registered(rule),
            Some(_) => PolicyChange::Changed(rule),
        };
        self.note_policy(name, change, by, out);
        Ok(())
    }

    /// Removes a registered policy.
    pub(super) fn remove_policy(
        &mut self,
        name: &Message,
        by: Option<Owner>,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        if self.is_of_settings(name) {
            return Err(Refusal::FilePolicy { name: name.clone(), verb: "remove" });
        }
        let Registry { in_force, registered, .. } = &mut self.policies;
        if !registered.contains_key(name) {
            return Err(self.unknown_policy(name));
        }
        let left = registered.values().filter(|other| other.name != *name);
        *in_force = Policies::compile(self.settings.policies.iter().chain(left))?;
        self.forget_policy(name.clone(), None, by, out);
        Ok(())
    }

    /// Forgets registered policies that cannot be in force.
    pub(super) fn retire_policies(&mut self, unusable: Vec<(Message, Message)>, out: &mut Output) {
        for (name, why) in unusable {
            self.forget_policy(name, Some(why), None, out);
        }
    }

    fn unknown_policy(&self, name: &Message) -> Refusal {
        let all = self.settings.policies.iter().chain(self.policies.registered.values());
        Refusal::UnknownPolicy { name: name.clone(), known: all.map(|spec| spec.name.clone()).collect() }
    }

    fn is_of_settings(&self, name: &Message) -> bool {
        self.settings.policies.iter().any(|own| own.name == *name)
    }

    fn forget_policy(&mut self, name: Message, why: Option<Message>, by: Option<Owner>, out: &mut Output) {
        self.policies.registered.remove(&name);
        out.writes.push(Write::DeletePolicy(name.clone()));
        self.note_policy(name, PolicyChange::Removed(why), by, out);
    }

    fn note_policy(&mut self, name: Message, change: PolicyChange, by: Option<Owner>, out: &mut Output) {
        out.events.push(Event::Policy { name, at: self.now, change, by });
        self.dirty.all();
    }
}

/// A change of the policies that is only tried, not made.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// The name of the policy. One that is in force is replaced, wherever it comes from.
    pub name: Message,
    /// The policy; `None`: try without it.
    pub spec: Option<PolicySpec>,
}

/// The result for one piece of work under both sets of policies.
#[derive(Debug, Clone, PartialEq)]
pub struct Tried {
    /// Under the policies in force.
    pub now: WhatIf,
    /// With the change.
    pub then: WhatIf,
}

impl Tried {
    /// Would the choice differ?
    #[must_use]
    pub fn differs(&self) -> bool {
        self.now.chosen != self.then.chosen
    }
}

impl Core {
    /// How the choice for each of these would differ, on the clusters as they are now. The
    /// submission interval is ignored: it decides when, not where. Nothing changes. With `brief`,
    /// the result has only the chosen clusters, not the verdict of every cluster.
    ///
    /// # Errors
    /// If the policy cannot be used, or there is none to leave out.
    pub fn try_policy<'w>(
        &self,
        trial: &Trial,
        works: impl IntoIterator<Item = (&'w Work, Option<&'w Parent>)>,
        brief: bool,
    ) -> Result<Vec<Tried>, Refusal> {
        let in_force = self.settings.policies.iter().chain(self.policies.registered.values());
        let others: Vec<_> = in_force.clone().filter(|spec| spec.name != trial.name).collect();
        if trial.spec.is_none() && others.len() == in_force.count() {
            return Err(self.unknown_policy(&trial.name));
        }
        let policies = Policies::compile(others.into_iter().chain(&trial.spec))?;
        // The tried policy may use values that no policy in force uses.
        let queued = self.queue.lines().iter().map(|line| line.length).sum();
        let moment = Moment { now: self.now, queued, oldest: self.oldest_waiting() };
        let now = View { spaced: false, moment, ..self.view() };
        let then = View { policies: &policies, ..now };
        // Interchangeable work is looked at once.
        let mut known = BTreeMap::new();
        let each = works.into_iter().map(|(work, parent)| {
            let look = |view| {
                let mut found = self.look_at(view, work, parent);
                found.clusters.truncate(if brief { 0 } else { found.clusters.len() });
                found
            };
            let tried = || Tried { now: look(now), then: look(then) };
            match parent {
                None => known.entry(work).or_insert_with(tried).clone(),
                Some(_) => tried(),
            }
        });
        Ok(each.collect())
    }
}

/// How often queued work is looked at again if a policy uses the time.
const LOOK_AGAIN: u64 = 10_000;

impl Core {
    /// What policies may know besides a cluster and a piece of work.
    pub(super) fn moment(&self) -> Moment {
        let queued = match self.policies.uses().queued {
            true => self.queue.lines().iter().map(|line| line.length).sum(),
            false => 0,
        };
        Moment { now: self.now, queued, oldest: self.policies.oldest }
    }

    /// Since when the longest-waiting head is queued.
    pub(super) fn oldest_waiting(&self) -> Option<Timestamp> {
        let heads = self.queue.heads().filter_map(|(_, class)| class.ready().first_key_value());
        let since = |(_, key): (&u64, &JobKey)| match self.jobs[*key].record().phase {
            Phase::Waiting { since, .. } => Some(since),
            _ => None,
        };
        heads.filter_map(since).min()
    }

    /// Finds that time, if a policy uses it: once a cycle, not once a look.
    pub(super) fn note_oldest(&mut self) {
        self.policies.oldest = self.policies.uses().oldest_wait.then(|| self.oldest_waiting()).flatten();
    }

    /// Policies that use the time may allow later what they reject now: while any work is queued,
    /// all heads are looked at again every ten seconds.
    pub(super) fn watch_the_time(&mut self) {
        self.note_oldest();
        let uses = self.policies.uses();
        if (uses.now || uses.oldest_wait)
            && self.policies.due.is_none()
            && self.queue.heads().next().is_some()
        {
            let next = Timestamp((self.now.0 / LOOK_AGAIN + 1) * LOOK_AGAIN);
            self.timers.set(&mut self.policies.due, Timer::Policies, next);
        }
    }
}
