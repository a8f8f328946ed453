//! How requests are read: bodies, names in the address, parameters after the `?`.

use std::{convert::Infallible, fmt::Display, str::FromStr, time::Duration};

use axum::{
    extract::{FromRequest, FromRequestParts, Query, RawPathParams, Request},
    http::{Uri, header, request::Parts},
};
use multicluster_api::codes;
use multicluster_types::{ClusterName, JobId, Lang, PolicyName, Span, settings};
use serde::de::DeserializeOwned;

use crate::{
    front::http::body::{self, USUAL},
    problem::Problem,
};

/// The most items on one page.
pub(super) const MOST_LISTED: usize = 1000;

/// The body as JSON.
pub(super) struct Json<T>(pub(super) T);

impl<T: DeserializeOwned, S: Sync> FromRequest<S> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        body::parse(&body::read(request, USUAL).await?).map(Json)
    }
}

/// The body as JSON; no body means `{}`.
pub(super) struct OptionalJson<T>(pub(super) T);

impl<T: DeserializeOwned + Default, S: Sync> FromRequest<S> for OptionalJson<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let json = body::read(request, USUAL).await?;
        if json.is_empty() { Ok(Self(T::default())) } else { body::parse(&json).map(Self) }
    }
}

/// The job in the path.
pub(super) struct Job(pub(super) JobId);

impl<S: Send + Sync> FromRequestParts<S> for Job {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        named(parts, state, "id").await.map(Job)
    }
}

/// The cluster in the path.
pub(super) struct Cluster(pub(super) ClusterName);

impl<S: Send + Sync> FromRequestParts<S> for Cluster {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        named(parts, state, "name").await.map(Cluster)
    }
}

/// The policy in the path.
pub(super) struct Policy(pub(super) PolicyName);

impl<S: Send + Sync> FromRequestParts<S> for Policy {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        named(parts, state, "name").await.map(Policy)
    }
}

async fn named<T, S>(parts: &mut Parts, state: &S, name: &str) -> Result<T, Problem>
where
    T: FromStr<Err: Display>,
    S: Send + Sync,
{
    let params = RawPathParams::from_request_parts(parts, state)
        .await
        .map_err(|error| Problem::new(codes::BAD_ID, error.body_text()))?;
    let value = params.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value);
    value.parse().map_err(|error| {
        let shown: String = value.chars().take(40).collect();
        Problem::told(codes::BAD_ID, &error).about(format_args!("{name} {shown:?}"))
    })
}

/// The caller's preferred language for explanations (`Accept-Language`).
pub(in crate::front::http) struct Language(pub(in crate::front::http) Lang);

impl<S: Sync> FromRequestParts<S> for Language {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let wanted = parts.headers.get(header::ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok());
        Ok(Self(wanted.and_then(liked_best).unwrap_or_default()))
    }
}

/// The most preferred of our languages in `de, zh-CN;q=0.8, en;q=0.5`; the first of equals.
fn liked_best(accept: &str) -> Option<Lang> {
    let ours = accept.split(',').filter_map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let lang = Lang::of(parts.next()?)?;
        let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse::<f32>().ok()).unwrap_or(1.0);
        Some((lang, weight))
    });
    let best = ours
        .filter(|(_, weight)| *weight > 0.0)
        .reduce(|best, next| if next.1 > best.1 { next } else { best });
    best.map(|(lang, _)| lang)
}

/// The query parameters.
pub(super) struct Params(Vec<(String, String)>);

impl Params {
    /// Reads the parameters; only these may be given.
    pub(super) fn of(uri: &Uri, known: &[&str]) -> Result<Self, Problem> {
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|error| Problem::new(codes::BAD_QUERY, error.body_text()))?;
        for (name, _) in &pairs {
            if !known.contains(&name.as_str()) {
                let shown: String = name.chars().take(40).collect();
                let meant = settings::closest(name, known.iter().copied());
                let meant = meant.map_or(String::new(), |name| format!("did you mean {name}? "));
                let there_are = if known.is_empty() {
                    "this route has none".to_owned()
                } else {
                    format!("known parameters: {}", known.join(", "))
                };
                let problem = Problem::new(codes::BAD_QUERY, format!("unknown parameter {shown:?}"));
                return Err(problem.hint(format!("{meant}{there_are}")));
            }
        }
        Ok(Self(pairs))
    }

    /// The only value of this name. An empty value counts as not given.
    pub(super) fn text(&self, name: &str) -> Result<Option<&str>, Problem> {
        let mut values = self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let value = values.next();
        if values.next().is_some() {
            let problem = Problem::new(codes::BAD_QUERY, format!("{name} is given twice"));
            return Err(problem.hint("give it once"));
        }
        Ok(value.filter(|value| !value.is_empty()))
    }

    /// The only value of this name, parsed.
    pub(super) fn value<T: FromStr>(&self, name: &str, expected: &str) -> Result<Option<T>, Problem> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        text.parse().map(Some).map_err(|_| bad(name, text, expected))
    }

    /// All values of this name, repeated or separated by commas.
    pub(super) fn each<T>(
        &self,
        name: &str,
        expected: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<T>, Problem> {
        let values = self.0.iter().filter(|(key, _)| key == name).flat_map(|(_, value)| value.split(','));
        let values = values.map(str::trim).filter(|value| !value.is_empty());
        values.map(|text| read(text).ok_or_else(|| bad(name, text, expected))).collect()
    }

    /// The size of a page; 100 by default.
    pub(super) fn limit(&self) -> Result<usize, Problem> {
        self.number("limit", 100, MOST_LISTED)
    }

    /// A number from 1 to `most`; `usual` by default.
    pub(super) fn number(&self, name: &str, usual: usize, most: usize) -> Result<usize, Problem> {
        let expected = format!("a whole number from 1 to {most}");
        match self.value::<usize>(name, &expected)? {
            None => Ok(usual),
            Some(number) if (1..=most).contains(&number) => Ok(number),
            Some(number) => Err(bad(name, &number.to_string(), &expected)),
        }
    }

    /// The end of the previous page.
    pub(super) fn cursor(&self) -> Result<Option<u64>, Problem> {
        self.value("cursor", "the next_cursor of the page before")
    }

    /// How long to wait: `20`, `20s`; limited to `most`.
    pub(super) fn wait(&self, name: &str, usual: Duration, most: Duration) -> Result<Duration, Problem> {
        let span = self.value::<Span>(name, "a length of time such as 20s")?;
        Ok(span.map_or(usual, |span| Duration::from_millis(span.0)).min(most))
    }

    /// True if the parameter is given without a value, or as `true`.
    pub(super) fn flag(&self, name: &str) -> Result<bool, Problem> {
        let given = self.0.iter().any(|(key, _)| key == name);
        match self.text(name)? {
            None => Ok(given),
            Some("true" | "1") => Ok(true),
            Some("false" | "0") => Ok(false),
            Some(other) => Err(bad(name, other, "true or false")),
        }
    }
}

fn bad(name: &str, text: &str, expected: &str) -> Problem {
    let shown: String = text.chars().take(40).collect();
    Problem::new(codes::BAD_QUERY, format!("{name}: {shown:?} cannot be used"))
        .hint(format!("expected {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(query: &str) -> Result<Params, Problem> {
        Params::of(&format!("/?{query}").parse().unwrap(), &["limit", "state", "cursor", "wait", "force"])
    }

    #[test]
    fn parameters_are_read_as_people_write_them() {
        let given = params("limit=5&state=queued,running&state=failed&wait=20s&force").unwrap();
        assert_eq!(given.limit().unwrap(), 5);
        assert_eq!(given.each("state", "", |t| Some(t.to_owned())).unwrap(), ["queued", "running", "failed"]);
        assert_eq!(
            given.wait("wait", Duration::ZERO, Duration::from_secs(60)).unwrap(),
            Duration::from_secs(20)
        );
        assert!(given.flag("force").unwrap());
        assert_eq!(given.cursor().unwrap(), None);
        let nothing = params("").unwrap();
        assert_eq!(nothing.limit().unwrap(), 100);
        assert!(!nothing.flag("force").unwrap());
    }

    #[test]
    fn the_language_is_the_one_that_is_liked_best() {
        for (accept, lang) in [
            ("zh", Lang::Zh),
            ("zh-CN,zh;q=0.9,en;q=0.8", Lang::Zh),
            ("en-US,en;q=0.9,zh;q=0.8", Lang::En),
            ("en;q=0.5, zh ; q=0.7", Lang::Zh),
            ("de, zh-TW;q=0.1", Lang::Zh),
            ("en, zh", Lang::En),
        ] {
            assert_eq!(liked_best(accept), Some(lang), "{accept}");
        }
        for accept in ["", "*", "de", "zh;q=0", ";;,,q=", "zh;q=NaN"] {
            assert_eq!(liked_best(accept), None, "{accept}");
        }
    }

    #[test]
    fn parameters_that_cannot_be_used_are_named() {
        let problem = params("stat=queued").err().unwrap();
        assert!(problem.hint.unwrap().starts_with("did you mean state? known parameters: limit, "));
        for query in ["limit=0", "limit=1001", "limit=x", "limit=-1", "limit=1&limit=2"] {
            assert!(params(query).unwrap().limit().is_err(), "{query}");
        }
        assert!(params("cursor=abc").unwrap().cursor().is_err());
        assert!(params("force=maybe").unwrap().flag("force").is_err());
        assert!(params("wait=soon").unwrap().wait("wait", Duration::ZERO, Duration::ZERO).is_err());
    }
}
