//! Where traces are sent: the setting `traces`, or OpenTelemetry's own variables.

use anyhow::{Context, bail};
use multicluster_types::settings::Traces;
use percent_encoding::percent_decode_str;
use reqwest::{
    Url,
    header::{HeaderMap, HeaderName, HeaderValue},
};

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
const TRACES_PROTOCOL: &str = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL";
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
const SERVICE: &str = "OTEL_SERVICE_NAME";
const DISABLED: &str = "OTEL_SDK_DISABLED";

/// The collector, and the name that it shows for this control plane.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(super) url: Url,
    /// May have a secret.
    pub(super) headers: HeaderMap,
    pub(super) service: String,
}

impl Target {
    /// `None`: traces are off. So they are if the variables cannot be used and the setting is
    /// `environment`: they may be there for other programs, and must not keep this one from starting.
    ///
    /// # Errors
    /// When the setting names an address, and it or a variable cannot be used.
    pub(crate) fn of(
        setting: &Traces,
        variable: impl Fn(&str) -> Option<String>,
    ) -> anyhow::Result<Option<Self>> {
        match (setting, Self::read(setting, variable)) {
            (Traces::Environment, Err(error)) => {
                tracing::error!(error = format!("{error:#}"), "no traces are sent");
                Ok(None)
            }
            (_, read) => read,
        }
    }

    fn read(setting: &Traces, variable: impl Fn(&str) -> Option<String>) -> anyhow::Result<Option<Self>> {
        let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        let url = match setting {
            Traces::Off => return Ok(None),
            Traces::To(address) => below(address).with_context(|| format!("traces: {address}"))?,
            Traces::Environment if variable(DISABLED).is_some_and(|value| value == "true") => {
                return Ok(None);
            }
            Traces::Environment => {
                let url = match (variable(TRACES_ENDPOINT), variable(ENDPOINT)) {
                    (Some(exactly), _) => address(&exactly).with_context(|| TRACES_ENDPOINT)?,
                    (None, Some(base)) => below(&base).with_context(|| ENDPOINT)?,
                    (None, None) => return Ok(None),
                };
                if variable(TRACES_PROTOCOL).or_else(|| variable(PROTOCOL)).as_deref() == Some("grpc") {
                    bail!(
                        "{PROTOCOL} is grpc, which is not supported\n  hint: set `traces` to the collector's OTLP/HTTP endpoint, such as http://collector:4318"
                    );
                }
                url
            }
        };
        let headers = variable(HEADERS).map_or(Ok(HeaderMap::new()), |text| headers(&text))?;
        let service = variable(SERVICE).unwrap_or_else(|| "ray-multicluster".to_owned());
        Ok(Some(Self { url, headers, service }))
    }
}

fn address(text: &str) -> anyhow::Result<Url> {
    match Url::parse(text.trim()) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => Ok(url),
        _ => bail!(
            "{text:?} is not an HTTP address\n  hint: give the collector's OTLP/HTTP endpoint, such as http://collector:4318"
        ),
    }
}

fn below(base: &str) -> anyhow::Result<Url> {
    let mut url = address(base)?;
    url.set_path(&format!("{}/v1/traces", url.path().trim_end_matches('/')));
    Ok(url)
}

/// `name=value,name=value`, percent-encoded. A value may be a secret, so no error repeats one.
fn headers(text: &str) -> anyhow::Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
        let header = pair.split_once('=').and_then(|(name, value)| {
            let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
            Some((name.trim().parse::<HeaderName>().ok()?, value.parse::<HeaderValue>().ok()?))
        });
        let Some((name, mut value)) = header else {
            bail!(
                "{HEADERS} cannot be used\n  hint: write name=value, several with commas: api-key=abc,tenant=x"
            );
        };
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(setting: &Traces, variables: &[(&str, &str)]) -> anyhow::Result<Option<Target>> {
        Target::of(setting, |name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    fn url(setting: &Traces, variables: &[(&str, &str)]) -> Option<String> {
        of(setting, variables).unwrap().map(|target| target.url.to_string())
    }

    #[test]
    fn traces_go_where_the_setting_or_the_environment_says() {
        let (here, there) = (Traces::To("http://here:4318".into()), "https://there:4318/otlp/");
        let environment = [(ENDPOINT, there)];
        assert_eq!(url(&Traces::Environment, &[]), None);
        assert_eq!(url(&Traces::Environment, &environment).unwrap(), "https://there:4318/otlp/v1/traces");
        assert_eq!(url(&Traces::Environment, &[(ENDPOINT, there), (DISABLED, "true")]), None);
        assert_eq!(url(&here, &environment).unwrap(), "http://here:4318/v1/traces");
        assert_eq!(url(&Traces::Off, &environment), None);
        let http = [(TRACES_ENDPOINT, "http://x/y"), (PROTOCOL, "grpc"), (TRACES_PROTOCOL, "http/json")];
        assert_eq!(url(&Traces::Environment, &http).unwrap(), "http://x/y");
    }

    #[test]
    fn headers_and_the_name_come_from_the_environment() {
        let variables =
            [(ENDPOINT, "http://x"), (HEADERS, "Authorization=Basic%20abc, tenant=t"), (SERVICE, "pool")];
        let target = of(&Traces::Environment, &variables).unwrap().unwrap();
        assert_eq!(
            (&target.headers["authorization"], &target.headers["tenant"]),
            (&"Basic abc".parse().unwrap(), &"t".parse().unwrap())
        );
        assert_eq!(target.service, "pool");
        assert!(!format!("{target:?}").contains("abc"));
    }

    #[test]
    fn a_variable_that_cannot_be_used_is_named() {
        let said = |variables: &[(&str, &str)]| {
            assert!(of(&Traces::Environment, variables).unwrap().is_none(), "{variables:?}");
            let read = Target::read(&Traces::Environment, |name| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            });
            format!("{:#}", read.unwrap_err())
        };
        assert!(said(&[(ENDPOINT, "collector:4318")]).starts_with("OTEL_EXPORTER_OTLP_ENDPOINT: "));
        assert!(said(&[(ENDPOINT, "http://x:4317"), (PROTOCOL, "grpc")]).starts_with(PROTOCOL));
        let headers = [(ENDPOINT, "http://x"), (HEADERS, "secret")];
        let error = said(&headers);
        assert!(error.contains(HEADERS) && !error.contains("secret"), "{error}");
        assert!(of(&Traces::To("http://x".into()), &headers).is_err(), "traces were asked for");
    }
}
