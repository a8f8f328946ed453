//! Verifies JWTs. Their signatures are asymmetric: the control plane knows public keys only.

use std::{sync::Arc, time::Duration};

use jsonwebtoken::{
    Algorithm, Validation,
    dangerous::insecure_decode_claims,
    decode, decode_header,
    errors::{Error, ErrorKind},
};
use multicluster_api::codes;
use multicluster_types::{JwtIssuer, Timestamp};
use serde::Deserialize;
use serde_json::Value;

use super::{keys::Keys, sso::admitted, tokens::Token};
use crate::{clock::span, problem::Problem};

/// Clocks differ by a few seconds.
const LEEWAY: Duration = Duration::from_secs(30);
/// The longest JWT. A user in hundreds of groups has one of 8 KiB.
const LONGEST: usize = 16 << 10;

/// An issuer and its keys.
pub(super) struct Issuer {
    pub(super) spec: JwtIssuer,
    pub(super) keys: Arc<Keys>,
}

/// Whether this is meant to be a JWT: our own tokens have no dots. The first part is a JSON object
/// in Base64.
pub(super) fn is_one(text: &str) -> bool {
    text.starts_with("eyJ") && text.split('.').count() == 3
}

/// The caller that the JWT vouches for.
pub(super) async fn verify(issuers: &[Issuer], text: &str) -> Result<Token, Problem> {
    if text.len() > LONGEST {
        return Err(refused(&format!("it has {} bytes, at most {LONGEST} are allowed", text.len())));
    }
    let header = decode_header(text)
        .map_err(|_| refused("its header cannot be read, or names an unknown algorithm"))?;
    if is_symmetric(header.alg) {
        return Err(refused(&format!(
            "algorithm {:?} is not allowed: any client could sign with it",
            header.alg
        )));
    }
    if header.crit.is_some() {
        return Err(refused("its header has `crit`, which is not supported"));
    }
    #[derive(Deserialize)]
    struct Claimed {
        iss: String,
    }
    // Not verified yet: it only chooses the keys to verify with.
    let claimed: Claimed =
        insecure_decode_claims(text).map_err(|_| refused("it does not name its issuer"))?;
    let Some(issuer) = issuers.iter().find(|issuer| issuer.spec.issuer == claimed.iss) else {
        let shown: String = claimed.iss.chars().take(80).collect();
        return Err(refused(&format!("issuer {shown:?} is not configured under `jwt`")));
    };
    let Some(key) = issuer.keys.find(header.kid.as_deref(), header.alg).await else {
        return Err(refused(issuer.keys.why_unknown()));
    };
    let mut validation = Validation::new(header.alg);
    validation.leeway = LEEWAY.as_secs();
    validation.validate_nbf = true;
    validation.set_audience(&issuer.spec.audience);
    validation.set_issuer(&[&issuer.spec.issuer]);
    validation.set_required_spec_claims(&["exp", "iss", "aud"]);
    let claims: Value =
        decode(text, &key, &validation).map_err(|error| refused(&said(&error, &issuer.spec)))?.claims;
    let mut token = caller(&issuer.spec, &claims)?;
    let expires = claims["exp"].as_f64().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    token.expires_at = Some(Timestamp(span(expires.unwrap_or_default().saturating_add(LEEWAY)).0));
    Ok(token)
}

fn is_symmetric(algorithm: Algorithm) -> bool {
    matches!(algorithm, Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512)
}

/// The owner and role in verified claims.
fn caller(issuer: &JwtIssuer, claims: &Value) -> Result<Token, Problem> {
    let claim = |name: &str| if name.starts_with('/') { claims.pointer(name) } else { claims.get(name) };
    let Some(user) = claim(&issuer.owner_claim).and_then(Value::as_str) else {
        return Err(refused(&format!("it has no text in the claim {}", issuer.owner_claim)));
    };
    // Some identity providers let their users enter any address. Some write `false` as a text.
    let names = [Some(issuer.owner_claim.as_str()), issuer.groups_claim.as_deref()];
    let counts = names.iter().flatten().any(|name| matches!(*name, "email" | "/email"));
    if counts && (claims["email_verified"] == false || claims["email_verified"] == "false") {
        return Err(refused("its email is not verified"));
    }
    let groups = match issuer.groups_claim.as_deref().and_then(claim) {
        Some(Value::Array(groups)) => groups.iter().filter_map(Value::as_str).collect(),
        Some(Value::String(group)) => vec![group.as_str()],
        _ => Vec::new(),
    };
    admitted("jwt", user, &issuer.roles, groups)
}

/// Begins with Ray's wording: its clients look for it.
fn refused(why: &str) -> Problem {
    let problem = Problem::new(codes::BAD_TOKEN, format!("Forbidden: Invalid authentication token: {why}"));
    problem.hint("get a new JWT for this control plane: docs/access.md lists the claims that are checked")
}

fn said(error: &Error, issuer: &JwtIssuer) -> String {
    match error.kind() {
        ErrorKind::ExpiredSignature => "it has expired".to_owned(),
        ErrorKind::ImmatureSignature => "it is not valid yet".to_owned(),
        ErrorKind::InvalidAudience => format!("its audience is not {}", issuer.audience.join(" or ")),
        ErrorKind::InvalidSignature => "its signature is wrong".to_owned(),
        ErrorKind::MissingRequiredClaim(claim) => format!("it has no claim {claim}"),
        _ => "it cannot be verified".to_owned(),
    }
}
