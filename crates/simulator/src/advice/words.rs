//! Advice as text, in both languages.

use multicluster_types::{Lang, Owner, say};

use super::{About, Advice, History, Line, Outcome, Shift};

impl Advice {
    /// `4,812 jobs in 14 days`, `little history: 12 jobs in 2 days`.
    #[must_use]
    pub fn basis(&self, lang: Lang) -> String {
        let History { jobs, over, .. } = self.history;
        let noun = if jobs == 1 { "job" } else { "jobs" };
        let (jobs, over) = (count(jobs), lang.length(over.as_seconds()));
        let basis = match lang {
            Lang::En => format!("{jobs} {noun} in {over}"),
            Lang::Zh => format!("{over}内 {jobs} 个作业"),
        };
        if self.is_little() { say!(lang, "little history: {basis}", "历史较少：{basis}") } else { basis }
    }

    /// How sure a line is.
    #[must_use]
    pub fn sureness(&self, line: &Line, lang: Lang) -> String {
        let basis = self.basis(lang);
        let Some(after) = line.after.as_ref().filter(|_| !matches!(line.about, About::Owners { .. })) else {
            return basis;
        };
        let better = self.now.halves_s.iter().zip(after.halves_s).filter(|(now, then)| then < *now).count();
        match better {
            2 => say!(lang, "{basis}, better in both halves", "{basis}，前后两半均有改善"),
            _ => say!(lang, "{basis}, better in one half only", "{basis}，仅一半有改善"),
        }
    }

    /// The whole in one sentence.
    #[must_use]
    pub fn summary(&self, lang: Lang) -> String {
        let wait = &self.now.wait_s;
        let (mean, longest) = (lang.length(wait.mean), lang.length(wait.max));
        if self.history.jobs == 0 {
            return lang.pick("no job has ended in this time", "这段时间内没有作业结束").to_owned();
        }
        if wait.mean < 10.0 {
            return say!(
                lang,
                "jobs hardly waited: mean wait {mean}, longest {longest}",
                "作业几乎没有等待：平均等待 {mean}，最长 {longest}"
            );
        }
        let settings = self.lines.iter().any(|line| matches!(line.about, About::Settings(_)));
        if settings {
            return say!(lang, "mean wait {mean}, longest {longest}", "平均等待 {mean}，最长 {longest}");
        }
        let full = self.fullest.as_ref().map(|full| {
            let (cluster, resource) = (&full.cluster, &full.resource);
            let (mean, peak) = (percent(full.mean), percent(full.peak));
            say!(
                lang,
                "; the fullest cluster is {cluster}: {mean} of its {resource} in use on average, {peak} at most",
                "；最满的集群是 {cluster}：{resource} 平均使用 {mean}，最高 {peak}"
            )
        });
        let full = full.unwrap_or_default();
        say!(
            lang,
            "mean wait {mean}, longest {longest}; no other setting would have shortened it much{full}",
            "平均等待 {mean}，最长 {longest}；换用其他设置改善不大{full}"
        )
    }

    /// One line: what to change, and what that would have changed.
    #[must_use]
    pub fn describe(&self, line: &Line, lang: Lang) -> String {
        match &line.about {
            About::Settings(shifts) => {
                let what = shifts.iter().map(show).collect::<Vec<_>>().join(", ");
                self.effect(&what, line.after.as_ref(), lang)
            }
            About::Cluster(cluster) => {
                let what = say!(lang, "one more cluster like {cluster}", "再加一个与 {cluster} 相同的集群");
                self.effect(&what, line.after.as_ref(), lang)
            }
            About::Owners { slow, fast, weight } => {
                let of = |outcome: &Outcome, who: &Owner| {
                    outcome.owners.iter().find(|owner| owner.owner == *who).map_or(0.0, |owner| owner.mean_s)
                };
                let both = |outcome: &Outcome| {
                    let (slow, fast) = (lang.length(of(outcome, slow)), lang.length(of(outcome, fast)));
                    say!(lang, "{slow} against {fast}", "{slow} 对 {fast}")
                };
                let now = both(&self.now);
                let gap = match (of(&self.now, slow), of(&self.now, fast)) {
                    // So many times nothing says nothing.
                    (_, fast_s) if fast_s < 10.0 => {
                        say!(lang, "{slow} waits longer than {fast}: {now}", "{slow} 比 {fast} 等得久：{now}")
                    }
                    (slow_s, fast_s) => {
                        let times = times(slow_s / fast_s, lang);
                        say!(
                            lang,
                            "{slow} waits {times} longer than {fast}: {now}",
                            "{slow} 的等待时间是 {fast} 的 {times}：{now}"
                        )
                    }
                };
                match (weight, &line.after) {
                    (Some(shift), Some(after)) => {
                        let (from, to, then) = (&shift.from, &shift.to, both(after));
                        say!(
                            lang,
                            "{gap}; with weight {to} instead of {from}: {then}",
                            "{gap}；权重由 {from} 改为 {to} 后：{then}"
                        )
                    }
                    _ => say!(
                        lang,
                        "{gap}; a larger weight would not have changed that",
                        "{gap}；提高权重也没有改善"
                    ),
                }
            }
        }
    }

    fn effect(&self, what: &str, after: Option<&Outcome>, lang: Lang) -> String {
        let Some(after) = after else { return what.to_owned() };
        let (from, to) = (lang.length(self.now.wait_s.mean), lang.length(after.wait_s.mean));
        let mut text = say!(lang, "{what}: mean wait {from} → {to}", "{what}：平均等待 {from} → {to}");
        let (before, longest) = (self.now.wait_s.max, after.wait_s.max);
        // A better mean at the cost of some is worth knowing.
        if longest > before * 1.1 && longest - before >= 10.0 {
            let (before, longest) = (lang.length(before), lang.length(longest));
            text += &say!(lang, ", longest {before} → {longest}", "，最长 {before} → {longest}");
        }
        if let Some(full) = after.fullest(|cluster| cluster.peak) {
            let (cluster, peak) = (&full.cluster, percent(full.peak));
            text += &say!(lang, ", {cluster} at most {peak} full", "，{cluster} 最满时 {peak}");
        }
        text
    }
}

fn show(shift: &Shift) -> String {
    let Shift { name, from, to } = shift;
    format!("{name} {from} → {to}")
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// `9 ×`, `2.4 ×`.
fn times(ratio: f64, lang: Lang) -> String {
    let number = if ratio < 9.5 { format!("{ratio:.1}") } else { format!("{ratio:.0}") };
    say!(lang, "{number} ×", "{number} 倍")
}

/// `4,812`.
fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_commas() {
        assert_eq!(
            (count(7), count(4_812), count(1_000_000)),
            ("7".into(), "4,812".into(), "1,000,000".into())
        );
    }
}
