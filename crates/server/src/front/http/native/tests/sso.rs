//! Single sign-on: who comes through a proxy, or with a JWT.

use std::{fs, net::IpAddr, path::PathBuf};

use axum::{
    Router,
    body::Body,
    http::{HeaderName, header},
};
use multicluster_types::{Owner, Sso};
use serde_json::{Value, json};

use super::{Heard, World, request, send};
use crate::front::{
    access::{
        Access, COOKIE, Limits, Peer, Role, Tokens,
        tests::signer::{Signer, claims, in_seconds, unsigned},
    },
    http,
};

const PROXY: &str = "
trusted_proxy:
  from: [127.0.0.1/32, fd00::/8]
  user_header: X-Forwarded-Email
  groups_header: X-Forwarded-Groups
  roles: {admin: [platform], submit: [quants], read: [guests]}
";
const ISSUER: &str = "issuer: https://issuer.example, audience: [other, ray], groups_claim: groups, \
                      roles: {admin: platform, submit: quants}, default_role: read";

/// A control plane with single sign-on, and a token of zorro@example.com with the role submit.
struct Desk {
    world: World,
    router: Router,
    access: Access,
    folder: PathBuf,
    token: String,
}

fn sso(text: &str) -> Sso {
    let cluster = "clusters: [{name: mac, head_address: 'h:1', dashboard: 'http://h:2'}]";
    multicluster_config::parse(&format!("{cluster}\n{text}"), "test", []).unwrap().sso
}

impl Desk {
    async fn new(name: &str, text: &str) -> Self {
        Self::with(name, text, "").await
    }

    /// With these additional settings.
    async fn with(name: &str, text: &str, settings: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("sso-{}-{name}", std::process::id()));
        let file = folder.join("tokens.json");
        let owner = Owner::new("zorro@example.com").unwrap();
        let (token, _) = Tokens::create(&file, owner, Role::Submit, Limits::default()).unwrap();
        let world = World::with(settings).await;
        let access = Access::by_file(&file, false).unwrap();
        access.sign_on(&sso(text)).unwrap()();
        let mut plane = world.plane().clone();
        plane.guard_by(access.clone());
        let names = ["ray.example.com".to_owned()];
        let router = http::router(plane, "127.0.0.1:8700".parse().unwrap(), &names);
        Self { world, router, access, folder, token }
    }

    /// With these keys in a file.
    async fn with_keys(name: &str, keys: &[Value]) -> Self {
        let folder = std::env::temp_dir().join(format!("sso-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("jwks.json");
        fs::write(&file, json!({"keys": keys}).to_string()).unwrap();
        Self::new(name, &format!("jwt: [{{{ISSUER}, jwks: {}}}]", file.display())).await
    }

    async fn ask(
        &self,
        peer: &str,
        headers: &[(&str, &str)],
        method: &str,
        path: &str,
        body: Value,
    ) -> Heard {
        let body = if body.is_null() { Body::empty() } else { body.to_string().into() };
        let mut request = request(method, path, body);
        for (name, value) in headers {
            let name: HeaderName = name.parse().unwrap();
            if name == header::HOST {
                request.headers_mut().remove(&name);
            }
            request.headers_mut().append(name, value.parse().unwrap());
        }
        request.extensions_mut().insert(Peer(peer.parse::<IpAddr>().unwrap()));
        send(&self.router, request).await
    }

    async fn get(&self, peer: &str, headers: &[(&str, &str)], path: &str) -> Heard {
        self.ask(peer, headers, "GET", path, Value::Null).await
    }

    /// With this token or JWT.
    async fn bears(&self, token: &str, path: &str) -> Heard {
        self.get("192.0.2.1", &[("authorization", &format!("Bearer {token}"))], path).await
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.folder));
    }
}

fn who(answer: Heard) -> (String, String) {
    let version = answer.expect(200);
    let text = |key: &str| version[key].as_str().unwrap_or_default().to_owned();
    (text("owner"), text("role"))
}

fn is(owner: &str, role: &str) -> (String, String) {
    (owner.to_owned(), role.to_owned())
}

#[tokio::test]
async fn the_proxy_names_the_owner_and_their_groups_the_role() {
    let desk = Desk::new("names", PROXY).await;
    let zorro = ("x-forwarded-email", "zorro@example.com");
    for (peer, groups, role) in [
        ("127.0.0.1", "quants", "submit"),
        ("::ffff:127.0.0.1", "others, platform ,quants", "admin"),
        ("fd00::7", "guests", "read"),
    ] {
        let headers = [zorro, ("X-Forwarded-Groups", groups)];
        assert_eq!(who(desk.get(peer, &headers, "/v1/version").await), is(zorro.1, role), "{groups}");
    }
    for groups in ["", "others", "Quants", "quants platform", "admin"] {
        let headers = [zorro, ("X-Forwarded-Groups", groups)];
        let told = desk.get("127.0.0.1", &headers, "/v1/jobs").await.refused(403, "forbidden");
        assert_eq!(told["message"], "zorro@example.com is in no group that has a role here", "{groups}");
    }
    desk.get("127.0.0.1", &[zorro], "/v1/jobs").await.refused(403, "forbidden");
    let told = desk.get("127.0.0.1", &[], "/v1/jobs").await.refused(401, "no_token");
    assert!(told["hint"].as_str().unwrap().starts_with("use the address of the proxy"), "{told}");
    desk.get("127.0.0.1", &[("x-forwarded-email", "")], "/v1/jobs").await.refused(401, "no_token");
    assert_eq!(desk.world.get("/healthz").await.status, 200);
}

/// The owner is the same one that a token has.
#[tokio::test]
async fn who_is_signed_on_owns_what_its_token_owns() {
    let desk = Desk::new("owner", PROXY).await;
    let zorro = [("x-forwarded-email", "zorro@example.com"), ("x-forwarded-groups", "quants")];
    let diego = [("x-forwarded-email", "diego@example.com"), ("x-forwarded-groups", "quants")];
    let job = json!({"id": "z", "entrypoint": "x"});
    desk.ask("127.0.0.1", &zorro, "POST", "/v1/jobs", job).await.expect(201);
    assert_eq!(desk.bears(&desk.token, "/v1/jobs/z").await.expect(200)["owner"], "zorro@example.com");
    desk.get("127.0.0.1", &diego, "/v1/jobs/z").await.refused(404, "unknown_job");
    assert_eq!(desk.get("127.0.0.1", &diego, "/v1/jobs").await.expect(200)["items"], json!([]));
    let cordon = desk.ask("127.0.0.1", &zorro, "POST", "/v1/clusters/mac/cordon", Value::Null).await;
    assert_eq!(cordon.refused(403, "forbidden")["message"], "role `submit` may not do this");
}

#[tokio::test]
async fn who_is_signed_on_submits_at_the_rate_of_its_owner() {
    let desk = Desk::with("rate", PROXY, "  submit_rate: 1/s\n").await;
    let submit = async |user: &str| {
        let headers = [("x-forwarded-email", user), ("x-forwarded-groups", "quants")];
        desk.ask("127.0.0.1", &headers, "POST", "/v1/jobs", json!({"entrypoint": "x"})).await
    };
    let answers = futures_util::future::join_all((0..20).map(|_| submit("diego"))).await;
    let refused = answers.into_iter().find(|answer| answer.status == 429).expect("20 are too many");
    assert_eq!(refused.refused(429, "rate_limited")["message"], "diego submits more than 1 a second");
    submit("zorro").await.expect(201);
}

#[tokio::test]
async fn a_header_from_elsewhere_counts_for_nothing() {
    let desk = Desk::new("elsewhere", PROXY).await;
    let admin = [("x-forwarded-email", "root@example.com"), ("x-forwarded-groups", "platform")];
    for peer in ["127.0.0.2", "::1", "192.0.2.1", "fe80::1", "::ffff:192.0.2.1"] {
        desk.get(peer, &admin, "/v1/jobs").await.refused(401, "no_token");
        let bearer = format!("Bearer {}", desk.token);
        let headers = [admin[0], admin[1], ("authorization", bearer.as_str())];
        let answer = desk.get(peer, &headers, "/v1/version").await;
        assert_eq!(who(answer), is("zorro@example.com", "submit"), "{peer}: the token counts");
    }
    // A request whose peer is not known does not come from the proxy.
    let mut request = request("GET", "/v1/jobs", Body::empty());
    request.headers_mut().insert("x-forwarded-email", "root@example.com".parse().unwrap());
    send(&desk.router, request).await.refused(401, "no_token");
}

#[tokio::test]
async fn a_proxy_that_lets_headers_of_clients_through_is_refused() {
    let desk = Desk::new("hostile", PROXY).await;
    let (user, group) = (("x-forwarded-email", "zorro@example.com"), ("x-forwarded-groups", "quants"));
    let huge = format!("{}@example.com", "z".repeat(100_000));
    for (headers, message) in [
        (vec![user, user, group], "the proxy sent the header x-forwarded-email more than once"),
        (
            vec![user, group, ("X-Forwarded-Groups", "platform")],
            "the proxy sent the header x-forwarded-groups more than once",
        ),
        (
            vec![("x-forwarded-email", "Don Diego"), group],
            "this user cannot own jobs: owner \"Don Diego\" contains ' '",
        ),
        (
            vec![("x-forwarded-email", "diego, zorro"), group],
            "this user cannot own jobs: owner \"diego, zorro\" contains ','",
        ),
        (
            vec![("x-forwarded-email", "<script>"), group],
            "this user cannot own jobs: owner \"<script>\" contains '<'",
        ),
        (
            vec![("x-forwarded-email", &huge), group],
            "this user cannot own jobs: owner is 100012 bytes long, at most 254 are allowed",
        ),
    ] {
        let told = desk.get("127.0.0.1", &headers, "/v1/jobs").await.refused(403, "forbidden");
        let said = told["message"].as_str().unwrap();
        assert!(said.starts_with(message) && said.len() < 200, "{said}");
    }
    let many = "a,".repeat(50_000) + "quants";
    let headers = [user, ("x-forwarded-groups", many.as_str())];
    assert_eq!(who(desk.get("127.0.0.1", &headers, "/v1/version").await), is("zorro@example.com", "submit"));
}

/// The browser of a signed-on user needs no login, and pages of other sites cannot use it.
#[tokio::test]
async fn the_console_works_behind_the_proxy() {
    let desk = Desk::new("console", PROXY).await;
    let zorro = [
        ("x-forwarded-email", "zorro@example.com"),
        ("x-forwarded-groups", "quants"),
        ("host", "ray.example.com"),
    ];
    let with = |more: (&'static str, &'static str)| [zorro[0], zorro[1], zorro[2], more];
    let job = json!({"entrypoint": "x"});
    for (origin, status) in [("https://ray.example.com", 201), ("https://evil.example", 403)] {
        let answer = desk.ask("127.0.0.1", &with(("origin", origin)), "POST", "/v1/jobs", job.clone()).await;
        assert_eq!(answer.status, status, "{origin}");
    }
    let login = desk.get("127.0.0.1", &zorro, "/login").await;
    assert_eq!((login.status.as_u16(), &login.headers["location"]), (303, &"/".parse().unwrap()));
    assert_eq!(desk.get("192.0.2.1", &zorro, "/login").await.status, 200, "others are asked for a token");
    assert!(desk.get("127.0.0.1", &zorro, "/").await.headers.get("location").is_none());
    assert_eq!(desk.get("192.0.2.1", &zorro, "/").await.headers["location"], "/login");
}

#[tokio::test]
async fn a_jwt_is_good_wherever_a_token_is() {
    for signer in [Signer::ed(), Signer::ec(), Signer::rsa()] {
        let desk = Desk::with_keys(signer.algorithm(), &[signer.jwk("k1")]).await;
        let mut claims = claims("diego@example.com");
        claims["groups"] = json!(["others", "quants"]);
        let jwt = signer.jwt("k1", &claims);
        let bearer = format!("Bearer {jwt}");
        for header in [
            ("authorization", bearer.as_str()),
            ("x-ray-authorization", &bearer),
            ("cookie", &format!("ray-authentication-token={jwt}")),
        ] {
            let answer = desk.get("192.0.2.1", &[header], "/v1/version").await;
            assert_eq!(who(answer), is("diego@example.com", "submit"), "{}", header.0);
        }
        let id_less = signer.sign(&json!({"alg": signer.algorithm()}), &claims);
        assert_eq!(who(desk.bears(&id_less, "/v1/version").await), is("diego@example.com", "submit"));
        assert_eq!(who(desk.bears(&desk.token, "/v1/version").await), is("zorro@example.com", "submit"));
        claims["groups"] = json!("platform");
        assert_eq!(who(desk.bears(&signer.jwt("k1", &claims), "/v1/version").await).1, "admin");
        claims["groups"] = Value::Null;
        assert_eq!(who(desk.bears(&signer.jwt("k1", &claims), "/v1/version").await).1, "read");
        desk.bears("rmc_guess", "/v1/jobs").await.refused(403, "bad_token");
        desk.bears("", "/v1/jobs").await.refused(403, "bad_token");
    }
}

#[tokio::test]
async fn a_browser_logs_in_with_a_jwt_until_it_expires() {
    let signer = Signer::ed();
    let desk = Desk::with_keys("login", &[signer.jwk("k1")]).await;
    let log_in = async |jwt: &str| {
        let mut request = request("POST", "/login", format!("token={jwt}").into());
        let kind = "application/x-www-form-urlencoded".parse().unwrap();
        request.headers_mut().insert(header::CONTENT_TYPE, kind);
        send(&desk.router, request).await
    };
    let mut many = claims("diego@example.com");
    many["groups"] = (0..500).map(|n| json!(format!("group-{n}"))).collect();
    assert_eq!(log_in(&signer.jwt("k1", &many)).await.status, 303, "as large as they get");
    let mut soon = claims("diego@example.com");
    // With the leeway for clocks, it is valid for a second.
    soon["exp"] = json!(in_seconds(-28));
    let welcome = log_in(&signer.jwt("k1", &soon)).await;
    let cookie = welcome.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    assert!(cookie.starts_with(COOKIE) && !cookie.contains("eyJ"), "{cookie}");
    let session = [("cookie", cookie.as_str())];
    assert_eq!(who(desk.get("192.0.2.1", &session, "/v1/version").await), is("diego@example.com", "read"));
    tokio::time::timeout(std::time::Duration::from_secs(10), async {
        while desk.get("192.0.2.1", &session, "/v1/version").await.status == 200 {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    })
    .await
    .expect("the session ends with the JWT");
    desk.get("192.0.2.1", &session, "/v1/version").await.refused(403, "bad_token");
    let refused = log_in(&signer.jwt("k1", &json!({"iss": "<b>"}))).await;
    assert!(refused.text.contains("issuer \"&lt;b>\" is not configured"), "{}", refused.text);
}

#[tokio::test]
async fn a_jwt_that_proves_nothing_is_refused_with_the_reason() {
    let (signer, rsa, other) = (Signer::ec(), Signer::rsa(), Signer::ec());
    let desk = Desk::with_keys("refused", &[signer.jwk("k1"), rsa.jwk("k2")]).await;
    let fine = claims("root");
    let but = |key: &str, value: Value| {
        let mut claims = fine.clone();
        claims[key] = value;
        signer.jwt("k1", &claims)
    };
    desk.bears(&signer.jwt("k1", &fine), "/v1/jobs").await.expect(200);
    let without = |key: &str| {
        let mut claims = fine.clone();
        claims.as_object_mut().unwrap().remove(key);
        signer.jwt("k1", &claims)
    };
    // The public key is public: with it as a secret, anyone could sign.
    let symmetric = {
        use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
        use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
        let message = unsigned(&json!({"alg": "HS256", "kid": "k2"}), &fine);
        let public = BASE64.decode(rsa.jwk("k2")["n"].as_str().unwrap()).unwrap();
        format!("{message}.{}", BASE64.encode(sign(&Key::new(HMAC_SHA256, &public), message.as_bytes())))
    };
    let (head, signature) = {
        let good = signer.jwt("k1", &fine);
        let (head, signature) = good.rsplit_once('.').unwrap();
        (head.to_owned(), signature.to_owned())
    };
    let tampered = unsigned(&json!({"alg": "ES256", "kid": "k1"}), &claims("admin"));
    let deep = format!("eyJ.{}.x", "W1".repeat(5000));
    for (jwt, why) in [
        (but("exp", json!(in_seconds(-60))), "it has expired"),
        (but("exp", json!("tomorrow")), "it has no claim exp"),
        (without("exp"), "it has no claim exp"),
        (but("nbf", json!(in_seconds(60))), "it is not valid yet"),
        (but("aud", json!("others")), "its audience is not other or ray"),
        (but("aud", json!(["a", "b"])), "its audience is not other or ray"),
        (without("aud"), "it has no claim aud"),
        (
            but("iss", json!("https://evil.example")),
            "issuer \"https://evil.example\" is not configured under `jwt`",
        ),
        (but("iss", json!(["https://issuer.example"])), "it does not name its issuer"),
        (without("iss"), "it does not name its issuer"),
        (but("sub", json!(7)), "it has no text in the claim sub"),
        (other.jwt("k1", &fine), "its signature is wrong"),
        (format!("{tampered}.{signature}"), "its signature is wrong"),
        (format!("{head}."), "its signature is wrong"),
        (format!("{}.", unsigned(&json!({"alg": "none"}), &fine)), "its header cannot be read"),
        (symmetric, "algorithm HS256 is not allowed"),
        (signer.sign(&json!({"alg": "RS256", "kid": "k1"}), &fine), "its issuer has no such key"),
        (signer.sign(&json!({"alg": "ES256", "kid": "k2"}), &fine), "its issuer has no such key"),
        (signer.sign(&json!({"alg": "RS256", "kid": "k2"}), &fine), "its signature is wrong"),
        (signer.jwt("k9", &fine), "its issuer has no such key"),
        (
            signer.sign(&json!({"alg": "ES256", "kid": "k1", "crit": ["b64"], "b64": false}), &fine),
            "its header has `crit`",
        ),
        (
            signer.sign(&json!({"alg": "ES256", "kid": "k1", "jwk": other.jwk("k1")}), &json!({})),
            "it does not name its issuer",
        ),
        (but("pad", json!("x".repeat(16 << 10))), "it has 2"),
        ("eyJ.eyJ.eyJ".to_owned(), "its header cannot be read"),
        (deep, "its header cannot be read"),
    ] {
        let told = desk.bears(&jwt, "/v1/jobs").await.refused(403, "bad_token");
        let said = told["message"].as_str().unwrap();
        let said = said
            .strip_prefix("Forbidden: Invalid authentication token: ")
            .unwrap_or_else(|| panic!("{said}"));
        assert!(said.starts_with(why) && said.len() < 200, "{why}: {said}");
    }
    let told = desk.bears(&but("sub", json!("a b")), "/v1/jobs").await.refused(403, "forbidden");
    assert!(told["message"].as_str().unwrap().starts_with("this user cannot own jobs"), "{told}");
}

#[tokio::test]
async fn owner_and_groups_come_from_the_claims_that_are_named() {
    let signer = Signer::ed();
    let desk = Desk::with_keys("claims", &[signer.jwk("k1")]).await;
    let keys = desk.folder.join("jwks.json");
    let uses = |more: &str| {
        let text = format!(
            "jwt: [{{issuer: https://issuer.example, audience: ray, jwks: {}, {more}}}]",
            keys.display()
        );
        desk.access.sign_on(&sso(&text)).unwrap()();
    };
    let mut claims = claims("system:serviceaccount:airflow:worker");
    claims["kubernetes.io"] = json!({"namespace": "airflow"});
    claims["email"] = json!("zorro@example.com");
    let jwt = signer.jwt("k1", &claims);
    uses("groups_claim: /kubernetes.io/namespace, roles: {submit: airflow}");
    assert_eq!(
        who(desk.bears(&jwt, "/v1/version").await),
        is("system:serviceaccount:airflow:worker", "submit")
    );
    uses("owner_claim: email, groups_claim: sub, roles: {admin: 'system:serviceaccount:airflow:worker'}");
    assert_eq!(who(desk.bears(&jwt, "/v1/version").await), is("zorro@example.com", "admin"));
    for (claims_used, unverified) in [
        ("owner_claim: email, default_role: read", json!(false)),
        ("owner_claim: /email, default_role: read", json!("false")),
        ("groups_claim: email, roles: {admin: zorro@example.com}", json!(false)),
    ] {
        uses(claims_used);
        assert_eq!(desk.bears(&jwt, "/v1/version").await.status, 200, "{claims_used}");
        claims["email_verified"] = unverified;
        let told = desk.bears(&signer.jwt("k1", &claims), "/v1/jobs").await.refused(403, "bad_token");
        assert!(told["message"].as_str().unwrap().ends_with("its email is not verified"), "{told}");
    }
    uses("groups_claim: groups, roles: {submit: quants}");
    let told = desk.bears(&jwt, "/v1/jobs").await.refused(403, "forbidden");
    assert!(told["message"].as_str().unwrap().ends_with("is in no group that has a role here"), "{told}");
}

#[tokio::test]
async fn a_reload_changes_single_sign_on_and_never_opens_the_door() {
    let folder = std::env::temp_dir().join(format!("sso-{}-reload", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("cluster.yaml");
    let write = |more: &str| {
        let clusters =
            "clusters: [{name: mac, head_address: '127.0.0.1:1', dashboard: 'http://127.0.0.1:1'}]";
        fs::write(&file, format!("{clusters}\n{more}")).unwrap();
    };
    let world = World::of_file(&file).await;
    let mut plane = world.plane().clone();
    plane.guard_by(Access::by_file(&folder.join("tokens.json"), false).unwrap());
    let router = http::router(plane.clone(), "127.0.0.1:8700".parse().unwrap(), &[]);
    let asks = async |group: &str| {
        let mut request = request("GET", "/v1/version", Body::empty());
        request.headers_mut().insert("x-forwarded-email", "zorro".parse().unwrap());
        request.headers_mut().insert("x-forwarded-groups", group.parse().unwrap());
        request.extensions_mut().insert(Peer("127.0.0.1".parse().unwrap()));
        send(&router, request).await
    };
    assert_eq!(who(asks("quants").await), is("", ""), "anyone has full access");
    write(PROXY);
    plane.reloader.reload().await.unwrap();
    assert_eq!(who(asks("quants").await), is("zorro", "submit"));
    write(&PROXY.replace("submit: [quants]", "read: [quants]").replace(", read: [guests]", ""));
    plane.reloader.reload().await.unwrap();
    assert_eq!(who(asks("quants").await), is("zorro", "read"));
    write(&format!("jwt: [{{{ISSUER}, jwks: missing.json}}]"));
    let error = plane.reloader.reload().await.unwrap_err().to_string();
    assert!(
        error.contains("cluster.yaml: the keys of https://issuer.example: cannot use ")
            && error.contains("missing.json"),
        "{error}"
    );
    assert_eq!(who(asks("quants").await), is("zorro", "read"), "the old one stays in force");
    write("");
    plane.reloader.reload().await.unwrap();
    asks("quants").await.refused(401, "no_token");
    fs::remove_dir_all(folder).unwrap();
}
