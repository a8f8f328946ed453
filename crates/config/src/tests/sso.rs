//! Single sign-on: what is read, and what is refused.

use multicluster_types::{Jwks, Role, Sso};

use super::{assert_told, centos, ok};

#[test]
fn a_proxy_and_issuers_are_read() {
    assert_eq!(ok(&centos("")).sso, Sso::default());
    let config = ok(&centos(
        "trusted_proxy:
  from: [127.0.0.1/32, 10.0.0.0/8, '::1']
  user_header: X-Forwarded-Email
  groups_header: X-Forwarded-Groups
  roles: {admin: platform, submit: [quants, platform]}
  default_role: read
jwt:
  - issuer: https://issuer.example
    audience: ray
    jwks: https://issuer.example/keys
    default_role: submit
  - {issuer: cluster, audience: [a, b], jwks: keys.json, owner_claim: /a/b, groups_claim: sub, roles: {read: x}}
",
    ));
    let proxy = config.sso.trusted_proxy.unwrap();
    assert_eq!(
        proxy.from.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["127.0.0.1/32", "10.0.0.0/8", "::1/128"]
    );
    assert_eq!(
        (proxy.user_header.as_str(), proxy.groups_header.as_deref()),
        ("x-forwarded-email", Some("x-forwarded-groups"))
    );
    let roles = |group: &str| proxy.roles.of([group]);
    assert_eq!(
        ["platform", "quants", "others"].map(roles),
        [Role::Admin, Role::Submit, Role::Read].map(Some)
    );
    let [first, second] = config.sso.jwt.try_into().unwrap();
    assert_eq!(first.jwks, Jwks::Url("https://issuer.example/keys".into()));
    assert_eq!((first.audience, first.owner_claim.as_str()), (vec!["ray".to_owned()], "sub"));
    assert_eq!(second.jwks, Jwks::File("keys.json".into()));
    assert_eq!(
        (second.owner_claim.as_str(), second.groups_claim.as_deref(), second.roles.default),
        ("/a/b", Some("sub"), None)
    );
}

#[test]
fn sign_on_that_would_not_work_is_told() {
    const PROXY: &str =
        "write a mapping: {from: [127.0.0.1/32], user_header: X-Forwarded-Email, default_role: read}";
    const FROM: &str = "write the addresses of the proxy: [127.0.0.1/32]";
    for (proxy, message, hint) in [
        ("yes", "5:16 trusted_proxy cannot be true or false", PROXY),
        ("{user_header: u, default_role: read}", "5:1 trusted_proxy has no from", "see docs/access.md"),
        ("{from: [], user_header: u, default_role: read}", "5:17 from is empty", FROM),
        (
            "{from: [proxy], user_header: u, default_role: read}",
            "5:23 \"proxy\" is not an address or network",
            FROM,
        ),
        (
            "{from: 10.0.0.0/33, user_header: u, default_role: read}",
            "5:23 \"10.0.0.0/33\" is not an address or network",
            FROM,
        ),
        (
            "{from: '::1', user_header: a b, default_role: read}",
            "5:43 \"a b\" is not the name of a header",
            "write the name of a header: X-Forwarded-Email",
        ),
        (
            "{from: '::1', user_header: u}",
            "5:1 no user would have a role",
            "add groups_header and roles, or default_role: submit",
        ),
        (
            "{from: '::1', user_header: u, roles: {read: x}}",
            "5:46 roles need groups_header: without it no groups are known",
            "add groups_header, or write default_role instead",
        ),
        (
            "{from: '::1', user_header: u, default_role: root}",
            "5:60 unknown role \"root\"",
            "there are read, submit and admin",
        ),
        (
            "{from: '::1', user_header: u, groups_header: g, roles: {owner: x}}",
            "5:72 unknown key owner in `roles:`",
            "known keys are read, submit, admin",
        ),
        (
            "{form: '::1', from: '::1', user_header: u, default_role: read}",
            "5:17 unknown key form in `trusted_proxy:`",
            "did you mean from?",
        ),
    ] {
        assert_told(&centos(&format!("trusted_proxy: {proxy}\n")), message, hint);
    }
    let everyone = ok(&centos("trusted_proxy: {from: [0.0.0.0/0], user_header: u, default_role: read}\n"));
    assert!(everyone.warnings[0].message.starts_with("every address is trusted"), "{:?}", everyone.warnings);

    const JWKS: &str = "write an https:// URL, or the path of a file";
    for (issuer, message, hint) in [
        ("{audience: a, jwks: k, default_role: read}", "6:5 the issuer has no issuer", "see docs/access.md"),
        (
            "{issuer: i, default_role: read}",
            "6:5 the issuer has no audience and no jwks",
            "see docs/access.md",
        ),
        (
            "{issuer: i, audience: [], jwks: k, default_role: read}",
            "6:17 audience is empty",
            "write the text that the claim `aud` must contain",
        ),
        (
            "{issuer: i, audience: a, jwks: 'ftp://x', default_role: read}",
            "6:36 jwks cannot be fetched from \"ftp://x\"",
            JWKS,
        ),
        (
            "{issuer: i, audience: a, jwks: 'http://idp.example/k', default_role: read}",
            "6:36 jwks is fetched without TLS",
            "use https://: with other keys, anyone on the network path could sign on as any user",
        ),
        (
            "{issuer: i, audience: a, jwks: 'http://127.0.0.1.evil.example/k', default_role: read}",
            "6:36 jwks is fetched without TLS",
            "use https://: with other keys, anyone on the network path could sign on as any user",
        ),
        (
            "{issuer: i, audience: a, jwks: 'http://localhost:80@evil.example/k', default_role: read}",
            "6:36 jwks has a user name or password",
            JWKS,
        ),
        (
            "{issuer: i, audience: a, jwks: k}",
            "6:5 no user would have a role",
            "add groups_claim and roles, or default_role: submit",
        ),
    ] {
        assert_told(&centos(&format!("jwt:\n  - {issuer}\n")), message, hint);
    }
    let one = "  - {issuer: i, audience: a, jwks: 'http://localhost:8080/k', default_role: read}\n";
    assert_told(
        &centos(&format!("jwt:\n{one}{one}")),
        "7:5 the issuer \"i\" is given twice",
        "keep one; `audience` may be a list",
    );
}
