//! Why queued jobs wait, in one line each, for lists.

use std::{collections::HashMap, sync::Arc};

use multicluster_api as api;
use multicluster_core::{Core, Explanation};
use multicluster_types::{JobId, Lang, Message, ReasonKind, State, Verdict, say};

use crate::front::{access::Caller, plane::Plane};

/// Each costs a look at every cluster, on the thread that schedules; jobs that are alike cost one.
const MOST: usize = 100;
/// So many different reasons are said, of the clusters in their order.
const SAID: usize = 3;

/// Adds the reason to the first queued jobs. A replica that does not lead knows none.
pub(super) async fn add(plane: &Plane, caller: &Caller, jobs: &mut [api::Job], lang: Lang) {
    let queued = jobs.iter().enumerate().filter(|(_, job)| job.state == State::Queued);
    let asked: Vec<_> =
        queued.filter_map(|(at, job)| Some((at, JobId::new(&*job.id).ok()?))).take(MOST).collect();
    if asked.is_empty() {
        return;
    }
    let look = move |core: &Core| {
        let (mut known, mut all) = (HashMap::new(), Vec::new());
        for (at, job) in asked {
            let alike = core.alike(&job);
            let seen = alike.as_ref().and_then(|alike| known.get(alike)).cloned();
            let Some(why) = seen.or_else(|| core.explain(&job).ok().map(Arc::new)) else { continue };
            known.extend(alike.map(|alike| (alike, Arc::clone(&why))));
            all.push((at, why));
        }
        all
    };
    // The list itself is more important than the reasons.
    for (at, why) in plane.driver.read(look).await.unwrap_or_default() {
        // It may have been placed since the list was read.
        jobs[at].waits_for = why.queued_at.map(|_| line(&caller.told(Arc::unwrap_or_clone(why)), lang));
    }
}

/// What it waits for: its retry, the turn of others, or the clusters.
fn line(why: &Explanation, lang: Lang) -> String {
    if let Some(until) = why.backing_off_until {
        let left = lang.length(until.since(why.at).as_seconds().ceil());
        return match why.last_error.as_ref().map(Message::line) {
            Some(error) => {
                say!(lang, "will retry in {left}; last error: {error}", "{left}后重试；上次错误：{error}")
            }
            None => say!(lang, "will retry in {left}", "{left}后重试"),
        };
    }
    let is_other = |verdict: &Verdict| matches!(verdict, Verdict::Rejected(reason) if reason.kind() == ReasonKind::OtherCluster);
    // That it asks for another cluster is no reason beside that cluster's own.
    let only_others = why.clusters.iter().all(|said| is_other(&said.verdict));
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for said in why.clusters.iter().filter(|said| only_others || !is_other(&said.verdict)) {
        let text = match &said.verdict {
            Verdict::Rejected(_) => {
                let text = said.verdict.describe(why.at, lang);
                text.lines().next().unwrap_or_default().to_owned()
            }
            // Room, and jobs that go first.
            _ => lang.pick("its turn has not come", "还没有轮到").to_owned(),
        };
        match reasons.iter_mut().find(|(known, _)| *known == text) {
            Some((_, clusters)) => clusters.push(said.cluster.as_str()),
            None => reasons.push((text, vec![said.cluster.as_str()])),
        }
    }
    if reasons.is_empty() {
        return lang.pick("no cluster is registered", "尚未注册集群").to_owned();
    }
    let more = reasons.len().saturating_sub(SAID);
    let said = reasons.into_iter().take(SAID);
    let said = said.map(|(text, clusters)| {
        let clusters = match clusters[..] {
            [one] => one.to_owned(),
            [one, two] => format!("{one}, {two}"),
            _ => say!(lang, "{count} clusters", "{count} 个集群", count = clusters.len()),
        };
        say!(lang, "{clusters}: {text}", "{clusters}：{text}")
    });
    let mut line = said.collect::<Vec<_>>().join(lang.pick("; ", "；"));
    if more > 0 {
        line += &say!(lang, "; and {more} more reasons", "；另有 {more} 个原因");
    }
    line
}
