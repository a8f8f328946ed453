//! Policies that operators register while the scheduler runs, beside those of the settings.
//! Both are in force together; the settings' own are changed where they are written.

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

/// Every policy. Those in force are those of the settings and of the registered ones that can
/// be used beside them.
#[derive(Debug)]
pub(super) struct Registry {
    in_force: Policies,
    /// Beside those of the settings.
    registered: BTreeMap<Message, PolicySpec>,
    /// Policies that ask for the time look again then.
    due: Due,
    /// Since when the head that has waited longest waits, if a policy asks for that.
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

    /// The settings changed. Returns those that cannot be in force beside the new ones, with
    /// the reason.
    pub(super) fn reload(&mut self, settings: &Settings) -> Result<Vec<(Message, Message)>, Refusal> {
        policy::check_count(settings.policies.len())?;
        let unusable = self.unusable(settings);
        let usable =
            self.registered.values().filter(|spec| !unusable.iter().any(|(name, _)| *name == spec.name));
        self.in_force = Policies::compile(settings.policies.iter().chain(usable))?;
        Ok(unusable)
    }

    /// The registered policies that cannot be in force beside these settings, and why. A policy
    /// of the settings takes the place of a registered one of its name.
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
    /// The policies that were registered beside those of the settings, by name.
    pub fn registered_policies(&self) -> impl Iterator<Item = &PolicySpec> {
        self.policies.registered.values()
    }

    /// Adds a policy, or puts another in its place.
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

    /// Takes a registered policy away.
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

/// A change of the policies that is only tried.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// Of this name: one that is in force is replaced, wherever it comes from.
    pub name: Message,
    /// The policy; `None`: what would be without it.
    pub spec: Option<PolicySpec>,
}

/// What would become of one piece of work under both.
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
    /// How the choice for each of these would differ, on the clusters as they are now. The time
    /// between submissions is left out: it says when, not where. Nothing changes. `brief` tells
    /// only where each would go, and not what every cluster says to it.
    ///
    /// # Errors
    /// When the policy cannot be used, or there is none to leave out.
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
        // The policy that is tried may ask what no policy asked before.
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

/// So often policies that ask for the time look at what waits.
const LOOK_AGAIN: u64 = 10_000;

impl Core {
    /// What policies may know beside a cluster and a piece of work.
    pub(super) fn moment(&self) -> Moment {
        let queued = match self.policies.uses().queued {
            true => self.queue.lines().iter().map(|line| line.length).sum(),
            false => 0,
        };
        Moment { now: self.now, queued, oldest: self.policies.oldest }
    }

    /// Since when the head that has waited longest waits.
    pub(super) fn oldest_waiting(&self) -> Option<Timestamp> {
        let heads = self.queue.heads().filter_map(|class| class.ready().first_key_value());
        let since = |(_, key): (&u64, &JobKey)| match self.jobs[*key].record().phase {
            Phase::Waiting { since, .. } => Some(since),
            _ => None,
        };
        heads.filter_map(since).min()
    }

    /// Finds that moment, if a policy asks for it: once a cycle, not once a look.
    pub(super) fn note_oldest(&mut self) {
        self.policies.oldest = self.policies.uses().oldest_wait.then(|| self.oldest_waiting()).flatten();
    }

    /// Policies that ask for the time may let pass later what they hold back now: while anything
    /// waits, everything is looked at again on every tenth second.
    pub(super) fn watch_the_time(&mut self) {
        self.note_oldest();
        let uses = self.policies.uses();
        if (uses.now || uses.oldest_wait)
            && self.policies.due.is_none()
            && self.queue.head_after(None).is_some()
        {
            let next = Timestamp((self.now.0 / LOOK_AGAIN + 1) * LOOK_AGAIN);
            self.timers.set(&mut self.policies.due, Timer::Policies, next);
        }
    }
}
