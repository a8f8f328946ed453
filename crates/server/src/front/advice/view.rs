//! Advice as the API shows it.

use multicluster_api as api;
use multicluster_simulator::{About, Fullness, Line, Outcome, Percentiles, Progress};
use multicluster_types::{ClusterName, Lang, say};

use super::Made;
use crate::front::access::Caller;

/// Nothing yet.
pub(super) fn working(days: u32, progress: Progress, lang: Lang) -> api::Advice {
    api::Advice {
        state: "working".to_owned(),
        tried: progress.done,
        of: progress.of,
        days,
        at: None,
        jobs: 0,
        little: false,
        basis: String::new(),
        summary: lang.pick("replaying the history", "正在重放历史").to_owned(),
        waited_seconds: None,
        waits: None,
        items: Vec::new(),
        notes: Vec::new(),
    }
}

/// As this caller may see it: other owners are not named to those who see their own work only.
pub(super) fn done(made: &Made, caller: &Caller, lang: Lang) -> api::Advice {
    let advice = &made.advice;
    let may_see = |line: &&Line| caller.sees_only().is_none() || !matches!(line.about, About::Owners { .. });
    api::Advice {
        state: "done".to_owned(),
        tried: advice.trials.done,
        of: advice.trials.of,
        days: made.days,
        at: Some(made.at.0),
        jobs: advice.history.jobs,
        little: advice.is_little(),
        basis: advice.basis(lang),
        summary: advice.summary(lang),
        waited_seconds: (advice.history.jobs > 0).then_some(made.waited_s),
        waits: (advice.history.jobs > 0).then(|| waits(&advice.now.wait_s)),
        items: advice.lines.iter().filter(may_see).map(|line| item(made, line, lang)).collect(),
        notes: notes(made, lang),
    }
}

fn item(made: &Made, line: &Line, lang: Lang) -> api::AdviceLine {
    let kind = match line.about {
        About::Settings(_) => "settings",
        About::Cluster(_) => "cluster",
        About::Owners { .. } => "owners",
    };
    let set = line.set.as_ref().map(ToString::to_string);
    let days = made.days;
    let command = set.as_ref().map(|set| {
        let quoted = if set.contains([' ', '*', '\'']) { format!("'{set}'") } else { set.clone() };
        format!("ray-multicluster replay --since {days}d --set {quoted}")
    });
    api::AdviceLine {
        kind: kind.to_owned(),
        text: made.advice.describe(line, lang),
        sure: made.advice.sureness(line, lang),
        set,
        command,
        waits: line.after.as_ref().map(|after| waits(&after.wait_s)),
        clusters: line.after.as_ref().map(clusters).unwrap_or_default(),
    }
}

fn waits(wait_s: &Percentiles) -> api::Waits {
    api::Waits {
        mean_seconds: wait_s.mean,
        median_seconds: wait_s.p50,
        p95_seconds: wait_s.p95,
        longest_seconds: wait_s.max,
    }
}

fn clusters(outcome: &Outcome) -> Vec<api::ClusterFullness> {
    let round = |share: f64| (share * 1e4).round() / 1e4;
    let show = |full: &Fullness| api::ClusterFullness {
        cluster: full.cluster.to_string(),
        resource: full.resource.clone(),
        mean: round(full.mean),
        peak: round(full.peak),
    };
    outcome.clusters.iter().map(show).collect()
}

fn notes(made: &Made, lang: Lang) -> Vec<String> {
    let advice = &made.advice;
    let mut notes = vec![
        lang.pick(
            "run times are taken as they were, and clusters as large as they are now; tasks, actors, \
             failures, stops and other people's load are not replayed",
            "运行时间按实际值，集群按现在的大小；任务、actor、失败、停止和他人的负载不重放",
        )
        .to_owned(),
    ];
    let (really, now) = (made.waited_s, advice.now.wait_s.mean);
    if (really - now).abs() >= 30.0 && (really > 2.0 * now || now > 2.0 * really) {
        let (really, now) = (lang.length(really), lang.length(now));
        notes.push(say!(
            lang,
            "these jobs really waited {really} on average, {now} in the replay with the present settings: \
             other settings at that time, other people's load or failures make the difference",
            "这些作业实际平均等待 {really}，按现有设置重放为 {now}：差别来自当时的设置、他人的负载或故障"
        ));
    }
    let list = |names: &[ClusterName]| names.iter().map(ClusterName::as_str).collect::<Vec<_>>().join(", ");
    if !made.about.shared.is_empty() {
        let names = list(&made.about.shared);
        notes.push(say!(
            lang,
            "others use {names}, too: there, less would have been free than in the replay",
            "{names} 还有他人使用：实际可用资源比重放时少"
        ));
    }
    if !made.about.unseen.is_empty() {
        let names = list(&made.about.unseen);
        notes.push(say!(
            lang,
            "{names} left out: never seen, so its size is unknown",
            "未包含 {names}：从未连上，大小未知"
        ));
    }
    let never = advice.history.jobs - advice.now.finished;
    if never > 0 {
        notes.push(say!(
            lang,
            "{never} jobs could not run in the replay: too large for the present clusters, or refused",
            "重放时有 {never} 个作业无法运行：超出现有集群的大小，或被拒绝"
        ));
    }
    if made.is_cut || advice.history.left_out > 0 {
        notes.push(
            lang.pick(
                "earlier jobs were left out, because replaying all would take too long",
                "更早的作业未重放：全部重放耗时太长",
            )
            .to_owned(),
        );
    }
    if advice.is_late {
        let (tried, of) = (advice.trials.done, advice.trials.of);
        notes.push(say!(
            lang,
            "{tried} of {of} replays were made: there was no time for the others",
            "计划重放 {of} 次，完成 {tried} 次：其余时间不够"
        ));
    }
    notes
}
