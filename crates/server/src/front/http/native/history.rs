//! `/v1/history`: how things stood, over the last hour from memory and over up to 31 days from the store.

use std::collections::BTreeMap;

use axum::{Extension, Json, extract::State, http::Uri};
use multicluster_api::{self as api, codes};
use multicluster_store::{ClusterSample, Reader, Sample, SampleStep, StoreError, Waits};
use multicluster_types::{Span, Timestamp};

use super::request::Params;
use crate::{
    clock::wall,
    front::{access::Caller, plane::Plane},
    problem::Problem,
};

/// How far back samples are in memory.
pub(super) const MOST_MINUTES: usize = 60;
/// How far back, if it is not said.
const A_DAY: Span = Span::seconds(24 * 3600);
/// The most steps of one answer.
const MOST_STEPS: u64 = 1_500;
/// As many as a chart shows, if it is not said.
const USUAL_STEPS: u64 = 400;
/// Steps that divide a day, in seconds.
const STEPS: [u64; 12] = [60, 120, 300, 600, 1_800, 3_600, 7_200, 10_800, 14_400, 21_600, 43_200, 86_400];

/// Show how things stood
///
/// With `minutes`, or without any of these: the last hour, one sample every 15 s. With `since`, `until` or
/// `step`: steps of up to 31 days, with how long jobs waited. A step is a minute or more for the last day,
/// ten minutes or more before that; at most 1,500 steps.
#[utoipa::path(get, path = "/v1/history", tag = "plane", operation_id = "get_history",
    params(("minutes" = Option<u64>, Query, description = "How far back, 1 to 60; 60 if not said"),
        ("since" = Option<u64>, Query, description = "Steps from this moment on; a day before the end if not said"),
        ("until" = Option<u64>, Query, description = "Steps before this moment; now if not said"),
        ("step" = Option<u64>, Query, description = "The length of a step in seconds, 60 to 86400; rounded up to \
            what is stored; chosen by the time between the two if not said")),
    responses((status = 200, body = api::History), (status = 400, body = api::ErrorBody)))]
pub(super) async fn history(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
) -> Result<Json<api::History>, Problem> {
    let params = Params::of(&uri, &["minutes", "since", "until", "step"])?;
    // The clock of the samples may be ahead: it never goes back.
    let now = plane.samples.latest().map_or(wall(), |latest| wall().max(latest));
    let Some(window) = Window::of(&params, now)? else {
        let minutes = params.number("minutes", MOST_MINUTES, MOST_MINUTES)?;
        return Ok(Json(plane.samples.last(Span::seconds(minutes as u64 * 60))));
    };
    let turn = plane.bounds.search(&caller).await?;
    Ok(Json(plane.search(turn, move |store| window.read(store)).await?))
}

/// What is asked for. It begins with a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Window {
    since: Timestamp,
    until: Timestamp,
    step: Span,
    stored: SampleStep,
}

impl Window {
    /// `None`: the last hour is asked for.
    fn of(params: &Params, now: Timestamp) -> Result<Option<Self>, Problem> {
        let moment = |name| params.value::<u64>(name, "milliseconds since the Unix epoch");
        let (since, until) = (moment("since")?, moment("until")?);
        let step = params.value::<u64>("step", "a number of seconds from 60 to 86400")?;
        if since.is_none() && until.is_none() && step.is_none() {
            return Ok(None);
        }
        let bad = |text: String, hint: String| Err(Problem::new(codes::BAD_PERIOD, text).hint(hint));
        if params.value::<u64>("minutes", "a number")?.is_some() {
            return bad(
                "minutes cannot be combined with since, until and step".into(),
                "leave minutes out".into(),
            );
        }
        if step.is_some_and(|step| !(60..=86_400).contains(&step)) {
            return bad("step cannot be used".into(), "expected a number of seconds from 60 to 86400".into());
        }
        let until = until.unwrap_or(now.0).min(now.0);
        let oldest = now.0.saturating_sub(SampleStep::TenMinutes.kept_for().0);
        let since = since.unwrap_or(until.saturating_sub(A_DAY.0)).max(oldest);
        if since >= until {
            return bad(
                "since must be earlier than until, and until within the last 31 days".into(),
                "both are milliseconds since the Unix epoch".into(),
            );
        }
        let is_recent = since >= now.0.saturating_sub(SampleStep::Minute.kept_for().0);
        let finest = if is_recent { SampleStep::Minute } else { SampleStep::TenMinutes };
        let fits = |seconds: &u64, most: u64| {
            let step = Span::seconds(*seconds);
            step >= finest.span() && (until - since).div_ceil(step.0) <= most
        };
        let usual = || STEPS.into_iter().find(|step| fits(step, USUAL_STEPS)).unwrap_or(86_400);
        let step = Span::seconds(step.unwrap_or_else(usual));
        let stored = if step < SampleStep::TenMinutes.span() && is_recent {
            SampleStep::Minute
        } else {
            SampleStep::TenMinutes
        };
        let step = Span(step.0.next_multiple_of(stored.span().0));
        if (until - since).div_ceil(step.0) > MOST_STEPS {
            let least = STEPS.into_iter().find(|step| fits(step, MOST_STEPS)).unwrap_or(86_400);
            return bad(
                format!("these are more than {MOST_STEPS} steps"),
                format!("a step of {least} s is long enough for the time from since to until"),
            );
        }
        let since = Timestamp(since - since % step.0);
        Ok(Some(Self { since, until: Timestamp(until), step, stored }))
    }

    fn read(self, store: &dyn Reader) -> Result<api::History, StoreError> {
        let samples = store.samples(self.stored, self.since, self.until)?;
        let waits = store.waits(self.since, self.until, self.step)?;
        Ok(self.show(samples, &waits))
    }

    fn show(self, samples: Vec<Sample>, waits: &[Waits]) -> api::History {
        let mut steps: BTreeMap<u64, Sample> = BTreeMap::new();
        for sample in samples {
            let begun = sample.begun.0 - sample.begun.0 % self.step.0;
            steps.entry(begun).or_default().add(&sample);
        }
        let mut clusters: BTreeMap<String, api::ClusterHistory> = BTreeMap::new();
        for (moment, sample) in steps.values().enumerate() {
            for (name, cluster) in &sample.clusters {
                let history = clusters
                    .entry(name.to_string())
                    .or_insert_with(|| api::ClusterHistory::unknown(steps.len()));
                enter(cluster, history, moment);
            }
        }
        let each = |of: fn(&Sample) -> u64| steps.values().map(of).collect();
        let waited = |of: fn(&Waits) -> f64| waits.iter().map(of).collect();
        api::History {
            step_seconds: self.step.0 / 1000,
            at: steps.keys().next_back().copied(),
            moments: steps.keys().copied().collect(),
            clusters,
            pool: api::PoolHistory {
                waiting: each(|sample| sample.waiting),
                live: each(|sample| sample.live),
                submitted: each(|sample| sample.submitted),
                started: each(|sample| sample.started),
                succeeded: each(|sample| sample.succeeded),
                failed: each(|sample| sample.failed),
                stopped: each(|sample| sample.stopped),
            },
            waits: Some(api::WaitHistory {
                moments: waits.iter().map(|step| step.begun.0).collect(),
                jobs: waits.iter().map(|step| step.jobs).collect(),
                p50: waited(|step| step.p50.as_seconds()),
                p90: waited(|step| step.p90.as_seconds()),
                p99: waited(|step| step.p99.as_seconds()),
            }),
        }
    }
}

fn enter(cluster: &ClusterSample, history: &mut api::ClusterHistory, moment: usize) {
    let share = |parts: Option<u16>| parts.map(|parts| f64::from(parts) / 10_000.0);
    history.cpu[moment] = share(cluster.cpu);
    history.gpu[moment] = share(cluster.gpu);
    history.memory[moment] = share(cluster.memory);
    history.live[moment] = Some(cluster.live);
    history.waiting[moment] = Some(cluster.waiting);
    history.healthy[moment] = cluster.healthy;
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;
    const NOW: u64 = 800 * 24 * HOUR + 1;

    fn window(query: &str) -> Result<Option<Window>, Problem> {
        let params =
            Params::of(&format!("/?{query}").parse().unwrap(), &["minutes", "since", "until", "step"]);
        Window::of(&params?, Timestamp(NOW))
    }

    fn shape(query: &str) -> (u64, u64, SampleStep) {
        let Window { since, until, step, stored } = window(query).unwrap().unwrap();
        ((until.0 - since.0) / HOUR, step.0 / 1000, stored)
    }

    #[test]
    fn a_step_fits_the_time_and_what_is_stored_of_it() {
        let since = |hours: u64| NOW - hours * HOUR;
        assert_eq!(window("minutes=5").unwrap(), None);
        assert_eq!(shape(&format!("since={}", since(3))), (3, 60, SampleStep::Minute));
        assert_eq!(shape(&format!("until={NOW}")), (24, 300, SampleStep::Minute));
        assert_eq!(shape(&format!("since={}&step=61", since(1))), (1, 120, SampleStep::Minute));
        assert_eq!(shape(&format!("since={}", since(7 * 24))), (7 * 24, 1800, SampleStep::TenMinutes));
        assert_eq!(shape(&format!("since={}", since(30 * 24))).1, 7200);
        // What is older than a day is stored in steps of ten minutes.
        let old = format!("since={}&until={}&step=60", since(50), since(49));
        assert_eq!(shape(&old), (1, 600, SampleStep::TenMinutes));
        assert_eq!(shape("since=0").0 / 24, 31);
    }

    #[test]
    fn a_window_that_cannot_be_shown_is_refused() {
        let hint = |query: &str| window(query).unwrap_err().hint.unwrap_or_default();
        assert!(hint("since=0&step=600").contains("step of 1800 s"));
        assert!(hint(&format!("since={NOW}")).contains("milliseconds"));
        assert!(hint("until=5").contains("milliseconds"));
        assert!(hint("step=60&minutes=5").contains("leave minutes out"));
        assert!(hint("step=59").contains("60 to 86400"));
    }
}
