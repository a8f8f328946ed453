//! Why a cluster did not accept a piece of work. One value per cluster and look; `explain`, the
//! API, metric labels and log lines all render this same value.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{ClusterName, Dimension, JobId, Lang, Message, Platform, Quantity, Share, Tags, Timestamp, say};

/// Why a cluster is not chosen, with the figures. In the order in which the filters run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names of the fields say it")]
pub enum Reason {
    /// The database lost recent changes, and this cluster was not asked what it ran: work may run
    /// there that the control plane does not know.
    Rewound {
        /// The cluster that must be asked first; not only its own work waits for that.
        cluster: ClusterName,
    },
    /// An operator keeps new work away.
    Cordoned {
        /// The operator's note.
        note: Message,
    },
    /// Being drained, by an operator or because it left the configuration.
    Draining {
        /// The operator's note.
        note: Message,
    },
    /// It has not answered a poll yet.
    NeverSeen,
    /// It has stopped answering.
    Unhealthy {
        since: Timestamp,
        /// The error of the last poll.
        error: Message,
    },
    /// It answers, and refuses our token.
    Unauthorized {
        since: Timestamp,
        /// What it refused, or why there is no token; never the token itself.
        error: Message,
    },
    /// The head answers but no node is alive.
    NoNodes,
    /// Too many dispatches in a row failed.
    BreakerOpen {
        /// When one probe may pass.
        until: Timestamp,
    },
    /// One probe is under way; other work waits for its outcome.
    BreakerProbing,
    /// The caller named another cluster.
    OtherCluster {
        /// The cluster that the caller named.
        wanted: ClusterName,
    },
    /// It lacks placement tags of the work.
    MissingTags {
        /// The tags that it lacks.
        tags: Tags,
    },
    /// Its Ray or Python version differs from that of the caller, who would connect to it.
    OtherVersions {
        /// The cluster's Ray.
        ray: Message,
        /// The cluster's Python.
        python: Message,
        /// The caller's Ray.
        wanted_ray: Message,
        /// The caller's Python.
        wanted_python: Message,
    },
    /// It runs on another system or architecture than the work asks for.
    OtherPlatform {
        /// Its platform, as far as it is known.
        platform: Platform,
        /// The platform that the work asks for.
        wanted: Platform,
    },
    /// Its Ray does not know a field of the request, and so cannot accept the work.
    NotSupported {
        /// The answer of its Ray.
        error: Message,
    },
    /// No node carries the labels that the work asks for.
    NoSuchNode {
        /// The selector of the work.
        labels: Message,
    },
    /// The cluster would be too small even if it were empty.
    Infeasible {
        resource: Dimension,
        /// The demand of the work.
        demand: Quantity,
        /// The total of the cluster.
        total: Quantity,
    },
    /// The work must fit on one node, and every node would be too small even if it were empty.
    NodeTooSmall {
        resource: Dimension,
        /// The demand on one node.
        demand: Quantity,
        /// The most that any node has.
        largest: Quantity,
    },
    /// The cluster can grow as it is described, was asked to, and did not.
    NotGrown {
        resource: Dimension,
        /// The demand of the work.
        demand: Quantity,
        /// The most that the cluster has reached.
        reached: Quantity,
        /// Since when it has been asked.
        since: Timestamp,
        /// What its autoscaler says.
        error: Option<Message>,
    },
    /// An operator's policy rejects the cluster.
    Policy {
        /// The policy's name.
        name: Message,
    },
    /// An operator's policy could not be evaluated.
    PolicyFailed {
        /// The policy's name.
        name: Message,
        /// The error of the evaluation.
        error: Message,
    },
    /// The owner of the work, or the owner's group, would have more than its limit, on any cluster.
    OwnerLimit {
        /// The owner or the group.
        owner: Message,
        resource: Dimension,
        /// The demand of the work.
        demand: Quantity,
        /// What its live work holds.
        held: Quantity,
        /// The most that it may hold at once.
        limit: Quantity,
    },
    /// Its utilization is above its threshold.
    OverThreshold {
        resource: Dimension,
        /// The share in use.
        used: Share,
        /// The threshold.
        limit: Share,
    },
    /// The last top-level submission was too recent.
    TooSoon {
        /// When the next submission is allowed.
        until: Timestamp,
    },
    /// It runs the maximum number of top-level jobs.
    AtLimit {
        /// How many it runs.
        running: u32,
        /// The maximum.
        limit: u32,
    },
    /// Its head node has no memory for another driver.
    HeadFull {
        /// How many of our drivers are on the head node.
        drivers: u32,
        /// How many drivers it has memory for.
        limit: u32,
        /// The free memory of the head node.
        free: Quantity,
    },
    /// It is starting the maximum number of jobs.
    Starting {
        /// How many it is starting.
        jobs: u32,
        /// The maximum.
        limit: u32,
        /// Why the limit was lowered, if it was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lowered: Option<Message>,
    },
    /// Not enough is free at present.
    NoRoom {
        resource: Dimension,
        /// The demand of the work.
        demand: Quantity,
        /// The free amount, after promises.
        free: Quantity,
        /// The claims of our jobs there, used or not.
        #[serde(default, skip_serializing_if = "Quantity::is_nothing")]
        claimed: Quantity,
    },
    /// The work must fit on one node, and no node has enough free at present.
    NoRoomOnNode {
        resource: Dimension,
        /// The demand on one node.
        demand: Quantity,
        /// The most that any node has free.
        free: Quantity,
    },
    /// Kept free for work that has waited too long.
    Reserved {
        /// The job that room is kept for; `None` if the owner of this work may not see that job.
        job: Option<JobId>,
    },
}

impl Reason {
    /// Does it stay true, whatever ends and whatever comes back, until someone changes the work, the
    /// cluster or the settings?
    #[must_use]
    pub fn is_lasting(&self) -> bool {
        match self {
            Reason::OtherCluster { .. }
            | Reason::MissingTags { .. }
            | Reason::OtherVersions { .. }
            | Reason::OtherPlatform { .. }
            | Reason::NotSupported { .. }
            | Reason::NoSuchNode { .. }
            | Reason::Infeasible { .. }
            | Reason::NodeTooSmall { .. } => true,
            Reason::OwnerLimit { demand, limit, .. } => demand > limit,
            _ => false,
        }
    }
}

macro_rules! reasons {
    (|$now:ident, $lang:ident| $(
        $variant:ident { $($field:ident),* } => $word:literal,
            $en:literal,
            $zh:literal
            $(, $name:ident = $value:expr)*;
    )+) => {
        /// A [`Reason`] without its numbers: a metric label.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[expect(missing_docs, reason = "each is documented at the Reason of the same name")]
        pub enum ReasonKind { $($variant),+ }

        impl ReasonKind {
            /// Every kind, in the order of the filters.
            pub const ALL: &[ReasonKind] = &[$(ReasonKind::$variant),+];

            /// A stable word.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(ReasonKind::$variant => $word),+ }
            }
        }

        impl Reason {
            /// The kind of this reason.
            #[must_use]
            pub fn kind(&self) -> ReasonKind {
                match self { $(Reason::$variant { .. } => ReasonKind::$variant),+ }
            }

            /// The reason as text. `now` turns times into "in 12 s".
            #[must_use]
            pub fn describe(&self, $now: Timestamp, $lang: Lang) -> String {
                match self {
                    $(Reason::$variant { $($field),* } => say!($lang, $en, $zh $(, $name = $value)*)),+
                }
            }
        }
    };
}

// For each: its fields, its stable word, its text in English and in Chinese, and the values in
// the texts that are not plain fields.
reasons! { |now, lang|
    Rewound { cluster } => "rewound",
        "waits until cluster {cluster} was asked what it ran: the database lost recent changes",
        "等待询问集群 {cluster} 运行过什么：数据库丢失了最近的更改";
    Cordoned { note } => "cordoned",
        "cordoned: {note}",
        "已隔离：{note}";
    Draining { note } => "draining",
        "draining: {note}",
        "排空中：{note}";
    NeverSeen {} => "never_seen",
        "has not answered a poll yet",
        "尚未响应过轮询";
    Unhealthy { since, error } => "unhealthy",
        "unhealthy for {time}: {error}",
        "已有 {time}无法连接：{error}",
        time = lang.length(now.since(*since).as_seconds());
    Unauthorized { since, error } => "unauthorized",
        "unauthorized: {error} (for {time})",
        "未授权：{error}（已有 {time}）",
        time = lang.length(now.since(*since).as_seconds());
    NoNodes {} => "no_nodes",
        "its head answers but no node is alive",
        "头节点有响应，但没有存活的节点";
    BreakerOpen { until } => "breaker_open",
        "circuit open after repeated failures, probe in {left}",
        "连续失败，已熔断，{left}后探测",
        left = left(*until, now, lang);
    BreakerProbing {} => "breaker_probing",
        "circuit half open, waiting for a probe's outcome",
        "熔断半开，正在等待探测结果";
    OtherCluster { wanted } => "other_cluster",
        "the work asks for cluster {wanted}",
        "任务指定了集群 {wanted}";
    MissingTags { tags } => "missing_tags",
        "missing tags: {tags}",
        "缺少标签 {tags}",
        tags = tags.iter().map(crate::Tag::as_str).collect::<Vec<_>>().join(lang.pick(", ", "、"));
    OtherVersions { ray, python, wanted_ray, wanted_python } => "other_versions",
        "has Ray {ray} with Python {python}, the caller has Ray {wanted_ray} with Python {wanted_python}",
        "集群是 Ray {ray}、Python {python}，调用方是 Ray {wanted_ray}、Python {wanted_python}";
    OtherPlatform { platform, wanted } => "other_platform",
        "runs on {platform}, the work asks for {wanted}",
        "运行在 {platform} 上，任务要求 {wanted}",
        platform = shown(platform, lang);
    NotSupported { error } => "not_supported",
        "its Ray cannot accept the work: {error}",
        "它的 Ray 无法接受此任务：{error}";
    NoSuchNode { labels } => "no_such_node",
        "no node matches {labels}",
        "没有节点匹配 {labels}";
    Infeasible { resource, demand, total } => "infeasible",
        "too small: {resource} {demand} requested, {total} in total",
        "容量不足：需要 {resource} {demand}，总共 {total}",
        demand = resource.show(*demand), total = resource.show(*total);
    NodeTooSmall { resource, demand, largest } => "node_too_small",
        "largest node has {resource} {largest}, {demand} requested on one node",
        "最大的节点有 {resource} {largest}，单个节点上需要 {demand}",
        demand = resource.show(*demand), largest = resource.show(*largest);
    NotGrown { resource, demand, reached, since, error } => "not_grown",
        "was asked to grow {time} ago and did not: {resource} {demand} requested, {reached} reached{error}",
        "{time}前要求扩容，未能扩到：需要 {resource} {demand}，只达到 {reached}{error}",
        time = lang.length(now.since(*since).as_seconds()),
        demand = resource.show(*demand), reached = resource.show(*reached),
        error = error.as_ref().map(|error| say!(lang, "; its autoscaler: {error}", "；自动扩缩容器：{error}")).unwrap_or_default();
    Policy { name } => "policy",
        "excluded by policy {name}",
        "被策略 {name} 排除";
    PolicyFailed { name, error } => "policy_failed",
        "policy {name} failed: {error}",
        "策略 {name} 出错：{error}";
    OwnerLimit { owner, resource, demand, held, limit } => "owner_limit",
        "{owner} has {resource} {held} of at most {limit}, {demand} requested",
        "{owner} 已占用 {resource} {held}，上限 {limit}，需要 {demand}",
        demand = resource.show(*demand), held = resource.show(*held), limit = resource.show(*limit);
    OverThreshold { resource, used, limit } => "over_threshold",
        "busy: {resource} {used} in use, limit {limit}",
        "繁忙：{resource} 已用 {used}，上限 {limit}";
    TooSoon { until } => "too_soon",
        "next submission allowed in {left}",
        "{left}后可再次提交",
        left = left(*until, now, lang);
    AtLimit { running, limit } => "at_limit",
        "runs {running} of at most {limit} top-level jobs",
        "正在运行 {running} 个顶层作业，最多 {limit} 个";
    HeadFull { drivers, limit, free } => "head_full",
        "runs {drivers} of at most {limit} drivers on its head node, {free} free",
        "头节点上有 {drivers} 个 driver，最多 {limit} 个，空闲内存 {free}",
        free = Dimension::Memory.show(*free);
    Starting { jobs, limit, lowered } => "starting",
        "is starting {jobs} jobs, at most {limit} at once{why}",
        "正在启动 {jobs} 个作业，最多同时 {limit} 个{why}",
        why = lowered.as_ref().map_or(String::new(), |why| {
            say!(lang, ", lowered because {why}", "（已调低：{why}）")
        });
    NoRoom { resource, demand, free, claimed } => "no_room",
        "no room: {resource} {demand} requested, {free} free{ours}",
        "空闲不足：需要 {resource} {demand}，空闲 {free}{ours}",
        demand = resource.show(*demand),
        free = resource.show(*free),
        ours = needed(resource, *claimed, lang);
    NoRoomOnNode { resource, demand, free } => "no_room_on_node",
        "no node has room: {resource} {demand} requested on one node, at most {free} free",
        "没有节点放得下：单个节点上需要 {resource} {demand}，最多空闲 {free}",
        demand = resource.show(*demand), free = resource.show(*free);
    Reserved { job } => "reserved",
        "its room is kept for {whose}, which has waited too long",
        "空间已预留给等待过久的作业：{whose}",
        whose = job.as_ref().map_or(lang.pick("another owner's job", "其他用户的作业"), JobId::as_str);
}

fn shown(platform: &Platform, lang: Lang) -> String {
    if platform.is_empty() {
        return lang.pick("an unknown platform", "未知平台").to_owned();
    }
    platform.to_string()
}

/// The claims of our running jobs, used or not.
fn needed(resource: &Dimension, claimed: Quantity, lang: Lang) -> String {
    let amount = resource.show(claimed);
    if claimed.is_zero() {
        return String::new();
    }
    say!(lang, ", running jobs need {amount}", "，运行中的作业需要 {amount}")
}

fn left(until: Timestamp, now: Timestamp, lang: Lang) -> String {
    lang.length(until.since(now).as_seconds().ceil())
}

impl fmt::Display for ReasonKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_of_a_reason_is_the_same_in_json_and_in_metrics() {
        let reason = Reason::TooSoon { until: Timestamp(40_000) };
        let json = serde_json::to_value(&reason).unwrap();
        assert_eq!(json["reason"], reason.kind().as_str());
        assert_eq!(serde_json::from_value::<Reason>(json).unwrap(), reason);
    }

    /// One reason of each kind; a match keeps the list complete.
    fn each() -> Vec<Reason> {
        let text = Message::from;
        let (cluster, job) = (ClusterName::new("mac").unwrap(), JobId::new("large").unwrap());
        let amount = |n| Quantity::whole(n).unwrap();
        let (soon, resource) = (Timestamp(112_400), Dimension::Cpu);
        let example = |kind| match kind {
            ReasonKind::Rewound => Reason::Rewound { cluster: cluster.clone() },
            ReasonKind::Cordoned => Reason::Cordoned { note: text("disk") },
            ReasonKind::Draining => Reason::Draining { note: text("disk") },
            ReasonKind::NeverSeen => Reason::NeverSeen,
            ReasonKind::Unhealthy => Reason::Unhealthy { since: Timestamp(80_000), error: text("refused") },
            ReasonKind::Unauthorized => Reason::Unauthorized {
                since: Timestamp(80_000),
                error: text("token_file /etc/token was refused"),
            },
            ReasonKind::NoNodes => Reason::NoNodes,
            ReasonKind::BreakerOpen => Reason::BreakerOpen { until: soon },
            ReasonKind::BreakerProbing => Reason::BreakerProbing,
            ReasonKind::OtherCluster => Reason::OtherCluster { wanted: cluster.clone() },
            ReasonKind::MissingTags => Reason::MissingTags { tags: Tags::new(["gpu", "linux"]).unwrap() },
            ReasonKind::OtherVersions => Reason::OtherVersions {
                ray: text("2.60.0"),
                python: text("3.12"),
                wanted_ray: text("2.46.0"),
                wanted_python: text("3.11"),
            },
            ReasonKind::Infeasible => Reason::Infeasible {
                resource: Dimension::Memory,
                demand: amount(16 << 30),
                total: amount(8 << 30),
            },
            ReasonKind::OtherPlatform => Reason::OtherPlatform {
                platform: Platform::default(),
                wanted: Platform { os: None, arch: crate::PlatformName::new("arm64").ok() },
            },
            ReasonKind::NotSupported => Reason::NotSupported { error: text("unexpected 'x'") },
            ReasonKind::NoSuchNode => Reason::NoSuchNode { labels: text("gpu=A100") },
            ReasonKind::NodeTooSmall => {
                Reason::NodeTooSmall { resource: resource.clone(), demand: amount(6), largest: amount(4) }
            }
            ReasonKind::NotGrown => Reason::NotGrown {
                resource: resource.clone(),
                demand: amount(16),
                reached: amount(0),
                since: Timestamp(40_000),
                error: Some(text("worker: quota exceeded")),
            },
            ReasonKind::Policy => Reason::Policy { name: text("night") },
            ReasonKind::PolicyFailed => {
                Reason::PolicyFailed { name: text("night"), error: text("no such key") }
            }
            ReasonKind::OwnerLimit => Reason::OwnerLimit {
                owner: "research".into(),
                resource: Dimension::Gpu,
                demand: amount(2),
                held: amount(7),
                limit: amount(8),
            },
            ReasonKind::OverThreshold => Reason::OverThreshold {
                resource: resource.clone(),
                used: Share::percent(82),
                limit: Share::percent(70),
            },
            ReasonKind::TooSoon => Reason::TooSoon { until: soon },
            ReasonKind::AtLimit => Reason::AtLimit { running: 1, limit: 1 },
            ReasonKind::HeadFull => Reason::HeadFull { drivers: 3, limit: 3, free: amount(1 << 30) },
            ReasonKind::Starting => Reason::Starting { jobs: 8, limit: 8, lowered: Some(text("it is slow")) },
            ReasonKind::NoRoom => Reason::NoRoom {
                resource: resource.clone(),
                demand: amount(16),
                free: amount(0),
                claimed: amount(16),
            },
            ReasonKind::NoRoomOnNode => {
                Reason::NoRoomOnNode { resource: resource.clone(), demand: amount(4), free: amount(3) }
            }
            ReasonKind::Reserved => Reason::Reserved { job: Some(job.clone()) },
        };
        ReasonKind::ALL.iter().map(|kind| example(*kind)).collect()
    }

    #[test]
    fn every_reason_reads_like_a_sentence_in_both_languages() {
        let now = Timestamp(100_000);
        let lines = each().into_iter().map(|reason| {
            let [en, zh] = Lang::ALL.map(|lang| reason.describe(now, lang));
            format!("{}\n  {en}\n  {zh}", reason.kind())
        });
        insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @r"
        rewound
          waits until cluster mac was asked what it ran: the database lost recent changes
          等待询问集群 mac 运行过什么：数据库丢失了最近的更改
        cordoned
          cordoned: disk
          已隔离：disk
        draining
          draining: disk
          排空中：disk
        never_seen
          has not answered a poll yet
          尚未响应过轮询
        unhealthy
          unhealthy for 20 s: refused
          已有 20 秒无法连接：refused
        unauthorized
          unauthorized: token_file /etc/token was refused (for 20 s)
          未授权：token_file /etc/token was refused（已有 20 秒）
        no_nodes
          its head answers but no node is alive
          头节点有响应，但没有存活的节点
        breaker_open
          circuit open after repeated failures, probe in 13 s
          连续失败，已熔断，13 秒后探测
        breaker_probing
          circuit half open, waiting for a probe's outcome
          熔断半开，正在等待探测结果
        other_cluster
          the work asks for cluster mac
          任务指定了集群 mac
        missing_tags
          missing tags: gpu, linux
          缺少标签 gpu、linux
        other_versions
          has Ray 2.60.0 with Python 3.12, the caller has Ray 2.46.0 with Python 3.11
          集群是 Ray 2.60.0、Python 3.12，调用方是 Ray 2.46.0、Python 3.11
        other_platform
          runs on an unknown platform, the work asks for arm64
          运行在 未知平台 上，任务要求 arm64
        not_supported
          its Ray cannot accept the work: unexpected 'x'
          它的 Ray 无法接受此任务：unexpected 'x'
        no_such_node
          no node matches gpu=A100
          没有节点匹配 gpu=A100
        infeasible
          too small: memory 16 GiB requested, 8 GiB in total
          容量不足：需要 memory 16 GiB，总共 8 GiB
        node_too_small
          largest node has CPU 4, 6 requested on one node
          最大的节点有 CPU 4，单个节点上需要 6
        not_grown
          was asked to grow 60 s ago and did not: CPU 16 requested, 0 reached; its autoscaler: worker: quota exceeded
          60 秒前要求扩容，未能扩到：需要 CPU 16，只达到 0；自动扩缩容器：worker: quota exceeded
        policy
          excluded by policy night
          被策略 night 排除
        policy_failed
          policy night failed: no such key
          策略 night 出错：no such key
        owner_limit
          research has GPU 7 of at most 8, 2 requested
          research 已占用 GPU 7，上限 8，需要 2
        over_threshold
          busy: CPU 82 % in use, limit 70 %
          繁忙：CPU 已用 82 %，上限 70 %
        too_soon
          next submission allowed in 13 s
          13 秒后可再次提交
        at_limit
          runs 1 of at most 1 top-level jobs
          正在运行 1 个顶层作业，最多 1 个
        head_full
          runs 3 of at most 3 drivers on its head node, 1 GiB free
          头节点上有 3 个 driver，最多 3 个，空闲内存 1 GiB
        starting
          is starting 8 jobs, at most 8 at once, lowered because it is slow
          正在启动 8 个作业，最多同时 8 个（已调低：it is slow）
        no_room
          no room: CPU 16 requested, 0 free, running jobs need 16
          空闲不足：需要 CPU 16，空闲 0，运行中的作业需要 16
        no_room_on_node
          no node has room: CPU 4 requested on one node, at most 3 free
          没有节点放得下：单个节点上需要 CPU 4，最多空闲 3
        reserved
          its room is kept for large, which has waited too long
          空间已预留给等待过久的作业：large
        ");
    }

    #[test]
    fn a_job_of_another_owner_has_no_name() {
        let reserved = Reason::Reserved { job: None };
        let told = Lang::ALL.map(|lang| reserved.describe(Timestamp(0), lang));
        assert_eq!(told[0], "its room is kept for another owner's job, which has waited too long");
        assert_eq!(told[1], "空间已预留给等待过久的作业：其他用户的作业");
    }

    #[test]
    fn what_lowered_a_limit_is_said_only_if_something_did() {
        let starting = Reason::Starting { jobs: 16, limit: 16, lowered: None };
        let told = Lang::ALL.map(|lang| starting.describe(Timestamp(0), lang));
        assert_eq!(told, ["is starting 16 jobs, at most 16 at once", "正在启动 16 个作业，最多同时 16 个"]);
    }
}
