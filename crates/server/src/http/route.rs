//! Which route a path belongs to: a metric label must not be what somebody sent.

/// Those outside the native API, whose own come with its OpenAPI document.
const OTHERS: [&str; 15] = [
    "/",
    "/favicon.svg",
    "/assets/{*path}",
    "/metrics",
    "/healthz",
    "/readyz",
    "/api/version",
    "/api/jobs/",
    "/api/jobs/{id}",
    "/api/jobs/{id}/stop",
    "/api/jobs/{id}/logs",
    "/api/jobs/{id}/logs/tail",
    "/api/packages/{protocol}/{name}",
    "/api/authentication_mode",
    "/v1/openapi.json",
];

/// The templates there are.
#[derive(Debug)]
pub(super) struct Routes(Vec<String>);

impl Routes {
    pub(super) fn new(native: impl IntoIterator<Item = String>) -> Self {
        let mut templates: Vec<_> = native.into_iter().chain(OTHERS.map(str::to_owned)).collect();
        // `/v1/jobs/batch` is also `/v1/jobs/{id}`: fixed words go first, as in the router.
        templates.sort_by_key(|template| template.matches('{').count());
        Self(templates)
    }

    /// The template of this path.
    pub(super) fn find(&self, path: &str) -> Option<&str> {
        self.0.iter().map(String::as_str).find(|template| fits(template, path))
    }
}

fn fits(template: &str, path: &str) -> bool {
    let (mut words, mut parts) = (template.split('/'), path.split('/'));
    loop {
        match (words.next(), parts.next()) {
            (None, None) => return true,
            (Some(word), Some(part)) if word.starts_with("{*") => return !part.is_empty(),
            (Some(word), Some(part)) if word == part || (word.starts_with('{') && !part.is_empty()) => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_belongs_to_the_closest_route() {
        let routes =
            Routes::new(["/v1/jobs/{id}", "/v1/jobs/batch", "/v1/jobs/{id}/stop"].map(str::to_owned));
        for (path, route) in [
            ("/v1/jobs/batch", Some("/v1/jobs/batch")),
            ("/v1/jobs/raysubmit_1", Some("/v1/jobs/{id}")),
            ("/v1/jobs/raysubmit_1/stop", Some("/v1/jobs/{id}/stop")),
            ("/v1/jobs/", None),
            ("/api/jobs/", Some("/api/jobs/")),
            ("/api/jobs/x", Some("/api/jobs/{id}")),
            ("/metrics", Some("/metrics")),
            ("/", Some("/")),
            ("/assets/app-1a2b3c.js", Some("/assets/{*path}")),
            ("/assets/fonts/a.woff2", Some("/assets/{*path}")),
            ("/assets/", None),
            ("/../../etc/passwd", None),
            ("", None),
        ] {
            assert_eq!(routes.find(path), route, "{path}");
        }
    }
}
