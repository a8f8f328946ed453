//! Which jobs: the options that lists and commands for many jobs share.

use multicluster_api::{Job, Page};

use crate::{
    client::{Answer, Client},
    exit::Failure,
    output::time,
};

/// The most jobs that one request returns.
pub(super) const PAGE: u32 = 1000;

#[derive(clap::Args)]
#[group(id = "filter", multiple = true)]
pub(crate) struct Filter {
    /// Only in these states, with commas between: queued, dispatching, pending, running,
    /// unknown, succeeded, failed, stopped.
    #[arg(long, value_name = "STATE", value_delimiter = ',')]
    pub(super) state: Vec<String>,
    /// Only jobs that are or were on this cluster.
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Only jobs with this tag or label; repeat to require several.
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// Only this kind: job, task or actor.
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Only jobs whose id contains this.
    #[arg(long, value_name = "TEXT")]
    id: Option<String>,
    /// Only jobs whose id, entrypoint or tags contain this, in any case.
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// Only jobs of this owner.
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,
    /// Only jobs that had not ended at this time: a date, a time, or 2h for two hours ago.
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    since: Option<u64>,
    /// Only jobs that were submitted before this time.
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    until: Option<u64>,
}

impl Filter {
    /// The query parameters.
    pub(super) fn query(&self) -> Vec<(&'static str, String)> {
        let mut query = Vec::new();
        if !self.state.is_empty() {
            query.push(("state", self.state.join(",")));
        }
        query.extend(self.tag.iter().map(|tag| ("tag", tag.clone())));
        let single = [
            ("cluster", &self.cluster),
            ("kind", &self.kind),
            ("id", &self.id),
            ("q", &self.search),
            ("owner", &self.owner),
        ];
        query.extend(single.into_iter().filter_map(|(name, value)| Some((name, value.clone()?))));
        let times = [("since", self.since), ("until", self.until)];
        query.extend(times.into_iter().filter_map(|(name, at)| Some((name, at?.to_string()))));
        query
    }

    pub(super) fn is_empty(&self) -> bool {
        self.query().is_empty()
    }
}

/// Page after page of the jobs that match, each passed on as it arrives. Ends early when `each` returns
/// false.
pub(super) async fn pages(
    client: &Client,
    query: &[(&'static str, String)],
    mut each: impl FnMut(Answer<Page<Job>>) -> bool,
) -> Result<(), Failure> {
    let mut cursor = None;
    loop {
        let page_of = cursor.map(|cursor| ("cursor", cursor));
        let query: Vec<_> = query.iter().cloned().chain(page_of).collect();
        let page = client.get::<Page<Job>>(&["v1", "jobs"], &query).await?;
        cursor = page.value.next_cursor.clone();
        if !each(page) || cursor.is_none() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        filter: Filter,
    }

    #[test]
    fn a_filter_is_sent_as_the_api_wants_it() {
        let sent = |line: &[&str]| {
            let line = Line::try_parse_from([&["jobs"], line].concat()).map_err(|error| error.to_string());
            line.map(|line| line.filter.query())
        };
        assert_eq!(sent(&[]), Ok(vec![]));
        let pairs = sent(&["--state", "failed,stopped", "--owner", "ann", "--since", "2026-11-16T09:00:00Z"]);
        let expected = [("state", "failed,stopped"), ("owner", "ann"), ("since", "1794819600000")];
        assert_eq!(pairs, Ok(expected.map(|(name, value)| (name, value.to_owned())).to_vec()));
        let pairs = sent(&["--tag", "a", "--tag", "b", "--until", "2026-11-16T09:00:00Z"]);
        let expected = [("tag", "a"), ("tag", "b"), ("until", "1794819600000")];
        assert_eq!(pairs, Ok(expected.map(|(name, value)| (name, value.to_owned())).to_vec()));
        assert!(sent(&["--since", "tomorrow"]).unwrap_err().contains("is not a date or time"));
    }
}
