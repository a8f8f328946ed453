//! Which ideas are tried, and which of them matter.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use multicluster_types::{ClusterName, Owner, Span};

use super::{
    About, Advice, History, Line, Outcome, OwnerWait, Progress, Shift, ideas, ideas::Idea, matters, trial,
};
use crate::{Lab, SimulationError, Variant, Workload};

/// The first replay may use this part of the time: about as many follow.
const FIRST: u32 = 20;
/// Fewer jobs than this are not cut further, however long they take.
const FEWEST: usize = 200;
/// Owners with fewer jobs are not compared.
const OWNERS_JOBS: u64 = 10;
/// An owner that waits less than this is not worth a line, whatever others wait.
const OWNERS_WAIT_S: f64 = 60.0;
/// How many times longer than another an owner must wait.
const OWNERS_RATIO: f64 = 2.0;
/// The mildest value that gives this part of what the best value gives is named.
const GOOD_ENOUGH: f64 = 0.9;

pub(super) fn search(
    lab: &Lab,
    workload: &Workload,
    time: Duration,
    progress: &dyn Fn(Progress),
) -> Result<Advice, SimulationError> {
    let deadline = Instant::now() + time;
    let (workload, now) = baseline(lab, workload, time)?;
    let all = workload.left_out + workload.replayed.arrivals.len() as u64;
    let arrivals = &workload.replayed.arrivals;
    let over = match (arrivals.first(), arrivals.last()) {
        (Some(first), Some(last)) => Span(last.at.0 - first.at.0),
        _ => Span::ZERO,
    };
    let history = History { jobs: all - workload.left_out, over, left_out: workload.left_out };
    let mut search = Search {
        lab,
        workload: &workload.replayed,
        now: &now,
        deadline,
        trials: Cell::new(Progress { done: 1, of: 1 }),
        is_late: Cell::new(false),
        progress,
    };
    let mut lines = search.lines()?;
    lines.sort_by(|a, b| a.kind().cmp(&b.kind()).then(a.rank(&now).total_cmp(&b.rank(&now))));
    let (trials, is_late) = (search.trials.get(), search.is_late.get());
    Ok(Advice { history, lines, fullest: now.fullest(|cluster| cluster.mean).cloned(), trials, is_late, now })
}

/// What is replayed, and how many earlier jobs are not.
struct Cut {
    replayed: Workload,
    left_out: u64,
}

/// Replays the jobs under the present settings: all of them, or as many of the latest as there is time for.
fn baseline(lab: &Lab, workload: &Workload, time: Duration) -> Result<(Cut, Outcome), SimulationError> {
    let mut from = 0;
    loop {
        let rest = workload.arrivals.len() - from;
        let began = Instant::now();
        let is_small = rest <= FEWEST;
        let limit = if is_small { time } else { time / FIRST };
        let may_go_on = || began.elapsed() < limit;
        let replayed = later(workload, from);
        if let Some(now) = trial::run(lab, &replayed, &may_go_on)? {
            return Ok((Cut { replayed, left_out: from as u64 }, now));
        }
        if is_small {
            // Not even these: nothing can be said.
            let replayed = later(workload, workload.arrivals.len());
            let now = trial::run(lab, &replayed, &|| true)?;
            let now = now.unwrap_or_else(|| unreachable!("an empty workload is replayed at once"));
            return Ok((Cut { replayed, left_out: workload.arrivals.len() as u64 }, now));
        }
        from += rest / 2;
    }
}

/// The workload from this arrival on, on a clock that starts with it.
fn later(workload: &Workload, from: usize) -> Workload {
    let mut arrivals = workload.arrivals[from..].to_vec();
    let begin = arrivals.first().map_or(0, |arrival| arrival.at.0);
    for arrival in &mut arrivals {
        arrival.at = Span(arrival.at.0 - begin);
    }
    Workload { arrivals, ignored_columns: Vec::new() }
}

struct Search<'a> {
    lab: &'a Lab,
    workload: &'a Workload,
    now: &'a Outcome,
    deadline: Instant,
    trials: Cell<Progress>,
    /// There was no time for a trial.
    is_late: Cell<bool>,
    progress: &'a dyn Fn(Progress),
}

/// A trial that could be worth a line.
struct Tried {
    group: &'static str,
    shifts: Vec<Shift>,
    after: Outcome,
}

impl Search<'_> {
    fn lines(&mut self) -> Result<Vec<Line>, SimulationError> {
        let mut lines = Vec::new();
        if self.now.wait_s.mean >= 10.0 {
            let ideas = ideas::settings(&self.lab.pool);
            let clusters = ideas::clusters(&self.lab.pool, self.now);
            self.plan(ideas.iter().map(|idea| idea.steps.len()).sum::<usize>() + clusters.len());
            let mut winners = Vec::new();
            for idea in &ideas {
                winners.extend(self.best_step(idea)?);
            }
            winners.sort_by(|a, b| a.after.wait_s.mean.total_cmp(&b.after.wait_s.mean));
            self.drop_alternatives(&mut winners);
            let together = self.combination(&ideas, &winners)?;
            let best = together.iter().chain(winners.first()).map(|tried| tried.after.wait_s.mean);
            let best = best.fold(self.now.wait_s.mean, f64::min);
            lines.extend(together.into_iter().chain(winners).map(Tried::into_line));
            for cluster in clusters {
                // Settings are free, clusters are not.
                let line = self.one_more(cluster)?;
                lines.extend(line.filter(|line| matters(best, line.rank(self.now))));
            }
        }
        lines.extend(self.owners()?);
        Ok(lines)
    }

    /// The mildest value that gives nearly all that the best one gives, if that matters.
    fn best_step(&self, idea: &Idea) -> Result<Option<Tried>, SimulationError> {
        let mut tried = Vec::new();
        for shifts in &idea.steps {
            let Some(after) = self.trial(shifts)? else { continue };
            if self.is_better(self.now, &after) {
                tried.push(Tried { group: idea.group, shifts: shifts.clone(), after });
            }
        }
        let before = self.now.wait_s.mean;
        let gain = |tried: &Tried| before - tried.after.wait_s.mean;
        let best = tried.iter().map(gain).fold(0.0, f64::max);
        Ok(tried.into_iter().find(|tried| gain(tried) >= best * GOOD_ENOUGH))
    }

    /// Of two ways to change the same, one is enough, unless the other gives more.
    fn drop_alternatives(&self, winners: &mut Vec<Tried>) {
        let mild = |tried: &Tried| {
            let is_mild = |shift: &Shift| shift.name.ends_with("resource_threshold") && shift.to != "1";
            tried.shifts.iter().all(is_mild)
        };
        let Some(mild) = winners.iter().find(|tried| mild(tried)).map(|tried| tried.after.wait_s.mean) else {
            return;
        };
        winners.retain(|tried| {
            tried.shifts.iter().all(|shift| shift.name != "threshold_counts")
                || matters(mild, tried.after.wait_s.mean)
        });
    }

    /// Changes that help more together than the best one alone. If none helps alone, all of them.
    fn combination(&self, ideas: &[Idea], winners: &[Tried]) -> Result<Option<Tried>, SimulationError> {
        let Some(best) = winners.first() else {
            let mut groups: Vec<&str> = Vec::new();
            let mut shifts = Vec::new();
            for idea in
                ideas.iter().filter(|idea| ["threshold", "interval", "limit", "mode"].contains(&idea.group))
            {
                if !groups.contains(&idea.group) {
                    groups.push(idea.group);
                    shifts.extend(idea.steps.last().into_iter().flatten().cloned());
                }
            }
            if groups.len() < 2 {
                return Ok(None);
            }
            self.plan(1);
            let after = self.trial(&shifts)?.filter(|after| self.is_better(self.now, after));
            return Ok(after.map(|after| Tried { group: "several", shifts, after }));
        };
        let mut groups = vec![best.group];
        let mut shifts = best.shifts.clone();
        let mut outcome = best.after.clone();
        // Others first that help alone, then those that may help now.
        let others = winners[1..].iter().map(|tried| (tried.group, &tried.shifts));
        let rest = ideas.iter().filter_map(|idea| Some((idea.group, idea.steps.last()?)));
        for (group, more) in others.chain(rest) {
            if groups.contains(&group) || outcome.wait_s.mean < 10.0 {
                continue;
            }
            self.plan(1);
            let together: Vec<_> = shifts.iter().chain(more).cloned().collect();
            let Some(after) = self.trial(&together)? else { continue };
            if self.is_better(&outcome, &after) {
                groups.push(group);
                (shifts, outcome) = (together, after);
            }
        }
        Ok((groups.len() > 1).then_some(Tried { group: "several", shifts, after: outcome }))
    }

    fn one_more(&self, cluster: ClusterName) -> Result<Option<Line>, SimulationError> {
        let set = format!("one_more={cluster}");
        let after = self.try_text(&set)?.filter(|(_, after)| self.is_better(self.now, after));
        Ok(after.map(|(set, after)| Line {
            about: About::Cluster(cluster),
            set: Some(set),
            after: Some(after),
        }))
    }

    /// The owner or group that waits longest, if another waits much less.
    fn owners(&self) -> Result<Option<Line>, SimulationError> {
        let enough = |owner: &&OwnerWait| owner.jobs >= OWNERS_JOBS;
        let owners: Vec<_> = self.now.owners.iter().filter(enough).collect();
        let by_wait = |a: &&&OwnerWait, b: &&&OwnerWait| a.mean_s.total_cmp(&b.mean_s);
        let (Some(slow), Some(fast)) = (owners.iter().max_by(by_wait), owners.iter().min_by(by_wait)) else {
            return Ok(None);
        };
        if slow.mean_s < OWNERS_WAIT_S || slow.mean_s < fast.mean_s * OWNERS_RATIO {
            return Ok(None);
        }
        let weight = f64::from(self.weight(&slow.owner));
        for times in [2.0, 4.0] {
            self.plan(1);
            let to = weight * times;
            let Some((set, after)) = self.try_text(&format!("share.{}={to}", slow.owner))? else { continue };
            let wait = after.owners.iter().find(|owner| owner.owner == slow.owner);
            let helps = wait.is_some_and(|wait| matters(slow.mean_s, wait.mean_s));
            // What one gains, others lose; it should not be more.
            if helps && after.wait_s.mean <= self.now.wait_s.mean * 1.1 && after.finished >= self.now.finished
            {
                let name = format!("share.{}", slow.owner);
                let shift = Shift { name, from: weight.to_string(), to: to.to_string() };
                let about =
                    About::Owners { slow: slow.owner.clone(), fast: fast.owner.clone(), weight: Some(shift) };
                return Ok(Some(Line { about, set: Some(set), after: Some(after) }));
            }
        }
        let about = About::Owners { slow: slow.owner.clone(), fast: fast.owner.clone(), weight: None };
        Ok(Some(Line { about, set: None, after: None }))
    }

    fn weight(&self, owner: &Owner) -> f32 {
        let terms = self.lab.pool.settings.shares.terms(owner);
        #[expect(clippy::cast_possible_truncation, reason = "at most 1e6, in thousandths")]
        terms.map_or(1.0, |terms| f64::from(terms.weight) as f32)
    }

    fn trial(&self, shifts: &[Shift]) -> Result<Option<Outcome>, SimulationError> {
        Ok(self.try_text(&text(shifts))?.map(|(_, after)| after))
    }

    /// `None` if there was no time left, or the change cannot be made in this pool.
    fn try_text(&self, text: &str) -> Result<Option<(Variant, Outcome)>, SimulationError> {
        let may_go_on = || Instant::now() < self.deadline;
        let Ok(variant) = text.parse::<Variant>() else { return Ok(None) };
        let Ok((lab, _)) = self.lab.with(&variant) else { return Ok(None) };
        let outcome = if may_go_on() { trial::run(&lab, self.workload, &may_go_on)? } else { None };
        self.is_late.set(self.is_late.get() || outcome.is_none());
        if outcome.is_some() {
            let Progress { done, of } = self.trials.get();
            self.trials.set(Progress { done: done + 1, of: of.max(done + 1) });
            (self.progress)(self.trials.get());
        }
        Ok(outcome.map(|outcome| (variant, outcome)))
    }

    fn plan(&self, more: usize) {
        let Progress { done, of } = self.trials.get();
        self.trials.set(Progress { done, of: of + u32::try_from(more).unwrap_or(u32::MAX) });
        (self.progress)(self.trials.get());
    }

    /// Shorter waits, and no job left behind.
    fn is_better(&self, before: &Outcome, after: &Outcome) -> bool {
        after.finished >= self.now.finished && matters(before.wait_s.mean, after.wait_s.mean)
    }
}

fn text(shifts: &[Shift]) -> String {
    shifts.iter().map(|shift| format!("{}={}", shift.name, shift.to)).collect::<Vec<_>>().join(" ")
}

impl Tried {
    fn into_line(self) -> Line {
        Line {
            set: text(&self.shifts).parse().ok(),
            about: About::Settings(self.shifts),
            after: Some(self.after),
        }
    }
}

impl Line {
    /// Settings first: they cost nothing.
    fn kind(&self) -> u8 {
        match self.about {
            About::Settings(_) => 0,
            About::Cluster(_) => 1,
            About::Owners { .. } => 2,
        }
    }

    /// Best first: the mean wait that it gives.
    fn rank(&self, now: &Outcome) -> f64 {
        match (&self.about, &self.after) {
            // It is about one owner, not about all.
            (About::Owners { .. }, _) | (_, None) => now.wait_s.mean,
            (_, Some(after)) => after.wait_s.mean,
        }
    }
}
