//! The role that each request needs. One table: requests that are not in it need the role admin.

use axum::http::Method;

use super::Role;

/// What a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// No token.
    Nothing,
    /// Any token. With the role submit, a caller sees its own work only.
    Token,
    /// A token that may submit.
    Submit,
    /// The role admin.
    Admin,
}

impl Needs {
    /// What this method of this route needs; `None` means that there is no such route.
    pub(crate) fn of(method: &Method, route: Option<&str>) -> Self {
        let Some(route) = route else { return Needs::Token };
        let looks = matches!(*method, Method::GET | Method::HEAD);
        match route {
            "/healthz" | "/login" => Needs::Nothing,
            // The cluster's own secrets: for callers that run code there.
            "/v1/clusters/{name}/connection" => Needs::Submit,
            // About everyone's work.
            "/v1/log" => Needs::Admin,
            // This request keeps the placement in the queue.
            "/v1/placements/{id}" => Needs::Submit,
            _ if looks => Needs::Token,
            "/v1/what-if" | "/v1/policies/try" | "/logout" => Needs::Token,
            "/api/jobs/" | "/api/jobs/{id}" | "/api/jobs/{id}/stop" => Needs::Submit,
            "/api/packages/{protocol}/{name}" => Needs::Submit,
            route if route.starts_with("/v1/jobs") || route.starts_with("/v1/placements") => Needs::Submit,
            _ => Needs::Admin,
        }
    }

    /// Whether this role is enough.
    pub(crate) fn are_met_by(self, role: Role) -> bool {
        match self {
            Needs::Nothing | Needs::Token => true,
            Needs::Submit => role != Role::Read,
            Needs::Admin => role == Role::Admin,
        }
    }

    /// As shown to callers whose role is not enough.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Needs::Nothing => "nobody",
            Needs::Token => "any token",
            Needs::Submit => "the role submit or admin",
            Needs::Admin => "the role admin",
        }
    }
}

/// Whether this request submits one job, task or actor. Batches count their own.
pub(crate) fn is_a_submit(method: &Method, route: Option<&str>) -> bool {
    let routes = ["/v1/jobs", "/v1/placements", "/v1/jobs/{id}/rerun", "/api/jobs/"];
    *method == Method::POST && route.is_some_and(|route| routes.contains(&route))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_may_do_what_it_is_for() {
        let [get, post, put, delete] = [Method::GET, Method::POST, Method::PUT, Method::DELETE];
        for (method, route, read, submit) in [
            (&get, "/v1/jobs", true, true),
            (&get, "/metrics", true, true),
            (&get, "/v1/clusters", true, true),
            (&post, "/v1/what-if", true, true),
            (&get, "/v1/policies", true, true),
            (&get, "/v1/owners", true, true),
            (&post, "/v1/policies/try", true, true),
            (&put, "/v1/policies/{name}", false, false),
            (&delete, "/v1/policies/{name}", false, false),
            (&post, "/v1/jobs", false, true),
            (&post, "/v1/jobs/batch", false, true),
            (&delete, "/v1/jobs/{id}", false, true),
            (&post, "/v1/placements/heartbeat", false, true),
            (&post, "/api/jobs/", false, true),
            (&put, "/api/packages/{protocol}/{name}", false, true),
            (&get, "/v1/clusters/{name}/connection", false, true),
            (&get, "/v1/log", false, false),
            (&post, "/v1/clusters", false, false),
            (&Method::PATCH, "/v1/clusters/{name}", false, false),
            (&post, "/v1/clusters/{name}/cordon", false, false),
            (&post, "/v1/config/reload", false, false),
            (&post, "/v1/something/new", false, false),
        ] {
            let needs = Needs::of(method, Some(route));
            assert_ne!(needs, Needs::Nothing, "{route}");
            assert_eq!(needs.are_met_by(Role::Read), read, "{method} {route}");
            assert_eq!(needs.are_met_by(Role::Submit), submit, "{method} {route}");
            assert!(needs.are_met_by(Role::Admin), "{method} {route}");
        }
        assert_eq!(Needs::of(&get, Some("/healthz")), Needs::Nothing);
        assert_eq!(Needs::of(&get, None), Needs::Token);
    }
}
