pub(crate) mod signer;

use std::fs;

use futures_util::FutureExt;
use multicluster_types::{Roles, TrustedProxy};

use super::*;

/// Without single sign-on, the answer needs no waiting.
fn ask(access: &Access, headers: &HeaderMap) -> Result<Caller, Problem> {
    access.caller(headers, None).now_or_never().unwrap()
}

fn log_in(access: &Access, token: &str) -> Result<String, Problem> {
    access.log_in(token).now_or_never().unwrap()
}

fn with(name: &'static str, value: &str) -> HeaderMap {
    HeaderMap::from_iter([(header::HeaderName::from_static(name), value.parse().unwrap())])
}

/// A file of tokens in a folder of its own, which is deleted with it.
struct TokenFile(PathBuf);

fn a_file(name: &str) -> TokenFile {
    let dir = std::env::temp_dir().join(format!("access-{}-{name}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    TokenFile(dir.join("tokens.json"))
}

impl std::ops::Deref for TokenFile {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(self.0.parent().unwrap()));
    }
}

#[test]
fn without_tokens_anybody_is_let_in() {
    let path = a_file("none");
    let access = Access::by_file(&path, false).unwrap();
    assert!(!access.is_on());
    assert_eq!(ask(&access, &HeaderMap::new()), Ok(Caller::ANYBODY));
}

#[test]
fn where_the_last_token_was_revoked_nobody_is_let_in() {
    let path = a_file("revoked");
    let (secret, token) =
        Tokens::create(&path, Owner::new("zorro").unwrap(), Role::Admin, Limits::default()).unwrap();
    assert!(Tokens::revoke(&path, &token.id).unwrap());
    let access = Access::by_file(&path, false).unwrap();
    assert!(access.is_on());
    assert!(ask(&access, &HeaderMap::new()).is_err());
    assert!(ask(&access, &with("authorization", &format!("Bearer {secret}"))).is_err());
}

#[test]
fn a_token_is_found_wherever_rays_clients_put_it() {
    let path = a_file("where");
    let owner = Owner::new("zorro").unwrap();
    let (secret, _) = Tokens::create(&path, owner.clone(), Role::Submit, Limits::default()).unwrap();
    let access = Access::by_file(&path, false).unwrap();
    for (name, value) in [
        ("authorization", format!("Bearer {secret}")),
        ("x-ray-authorization", format!("Bearer {secret}")),
        ("cookie", format!("theme=dark; {RAYS_COOKIE}={secret}")),
    ] {
        let caller = ask(&access, &with(name, &value)).unwrap();
        assert_eq!((caller.owner.as_ref(), caller.role), (Some(&owner), Role::Submit), "{name}");
    }
    for (name, value, code) in [
        ("authorization", "Bearer x".to_owned(), "bad_token"),
        ("authorization", format!("bearer {secret}"), "no_token"),
        ("authorization", secret, "no_token"),
        ("x-other", "y".to_owned(), "no_token"),
    ] {
        assert_eq!(ask(&access, &with(name, &value)).unwrap_err().code, code, "{name} {value}");
    }
}

#[test]
fn a_change_of_the_file_is_noticed_and_its_loss_lets_nobody_in() {
    let path = a_file("change");
    let owner = Owner::new("zorro").unwrap();
    let (first, token) = Tokens::create(&path, owner.clone(), Role::Read, Limits::default()).unwrap();
    let access = Access::by_file(&path, false).unwrap();
    let asks = |secret: &str| {
        access.0.known.lock().looked = Instant::now() - LOOK;
        ask(&access, &with("authorization", &format!("Bearer {secret}"))).is_ok()
    };
    assert!(asks(&first));
    let (second, _) = Tokens::create(&path, owner, Role::Read, Limits::default()).unwrap();
    assert!(asks(&second));
    let caller = ask(&access, &with("authorization", &format!("Bearer {first}"))).unwrap();
    assert!(access.lets_in(&caller) && !access.lets_in(&Caller::ANYBODY));
    assert!(Tokens::revoke(&path, &token.id).unwrap());
    assert!(!asks(&first) && asks(&second));
    assert!(!access.lets_in(&caller), "what streams to it ends");
    fs::write(&*path, "{").unwrap();
    assert!(asks(&second), "a file that cannot be read changes nothing");
    fs::remove_file(&*path).unwrap();
    assert!(!asks(&second) && access.is_on());
}

#[test]
fn a_session_stands_for_its_token_until_either_ends() {
    let path = a_file("session");
    let owner = Owner::new("zorro").unwrap();
    let (secret, token) = Tokens::create(&path, owner.clone(), Role::Submit, Limits::default()).unwrap();
    let access = Access::by_file(&path, false).unwrap();
    let by = |session: &str| ask(&access, &with("cookie", &format!("{COOKIE}={session}")));
    assert_eq!(log_in(&access, "rmc_guess").unwrap_err().code, "bad_token");
    let (one, two) = (log_in(&access, &secret).unwrap(), log_in(&access, &secret).unwrap());
    assert!(one != two && !one.contains(&secret[4..]));
    assert_eq!(by(&one).unwrap().owner, Some(owner));
    assert_eq!(by("guess").unwrap_err().code, "no_token");
    assert_eq!(by(&secret).unwrap_err().code, "no_token", "a token is no session");
    let beside = format!("{RAYS_COOKIE}=of-a-dashboard-next-door; {COOKIE}={one}");
    let caller = ask(&access, &with("cookie", &beside)).unwrap();
    assert!(access.lets_in(&caller));
    access.log_out(&with("cookie", &format!("{COOKIE}={one}")));
    assert!(by(&one).is_err() && by(&two).is_ok());
    assert!(!access.lets_in(&caller), "what streams to it ends");
    assert!(Tokens::revoke(&path, &token.id).unwrap());
    access.0.known.lock().looked = Instant::now() - LOOK;
    assert_eq!(by(&two).unwrap_err().code, "bad_token");
}

#[test]
fn only_who_submits_is_kept_to_what_is_its_own() {
    let [zorro, diego] = ["zorro", "diego"].map(|name| Owner::new(name).unwrap());
    let caller =
        |role| Caller { owner: Some(zorro.clone()), role, token: None, session: None, signed_on: None };
    assert!(caller(Role::Submit).may_see(Some(&zorro)));
    assert!(!caller(Role::Submit).may_see(Some(&diego)) && !caller(Role::Submit).may_see(None));
    assert!(caller(Role::Read).may_see(Some(&diego)) && caller(Role::Admin).may_see(None));
    assert!(Caller::ANYBODY.may_see(None));

    let other = Caller {
        owner: Some(diego.clone()),
        role: Role::Submit,
        token: None,
        session: None,
        signed_on: None,
    };
    assert_ne!(caller(Role::Submit).package("a.zip"), other.package("a.zip"));
    assert_eq!(caller(Role::Submit).package("a.zip"), caller(Role::Admin).package("a.zip"));
    assert_eq!(Caller::ANYBODY.package("a.zip"), "a.zip");
}

/// Their streams end, and they sign on again.
#[tokio::test]
async fn who_is_signed_on_stays_until_that_is_configured_otherwise() {
    let proxy = |header: &str| Sso {
        trusted_proxy: Some(TrustedProxy {
            from: vec!["127.0.0.1/32".parse().unwrap()],
            user_header: header.to_owned(),
            groups_header: None,
            roles: Roles { default: Some(Role::Submit), ..Roles::default() },
        }),
        jwt: Vec::new(),
    };
    let access = Access::open();
    access.sign_on(&Sso::default()).unwrap()();
    assert!(!access.is_on() && access.lets_in(&Caller::ANYBODY));
    access.sign_on(&proxy("x-user")).unwrap()();
    assert!(access.is_on() && !access.has_tokens() && !access.lets_in(&Caller::ANYBODY));
    let headers = with("x-user", "zorro");
    let caller = access.caller(&headers, Some([127, 0, 0, 1].into())).await.unwrap();
    access.sign_on(&proxy("x-user")).unwrap()();
    assert!(access.lets_in(&caller), "the same again changes nothing");
    access.sign_on(&proxy("x-other")).unwrap()();
    assert!(!access.lets_in(&caller));
    access.sign_on(&Sso::default()).unwrap()();
    assert!(access.is_on() && ask(&access, &headers).is_err(), "no one else gets in because it is off");
}

/// Repeats it for as long as a change may take to be noticed, and longer.
#[track_caller]
fn soon(is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + 10 * LOOK;
    while !is_so() {
        assert!(Instant::now() < deadline);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn every_replica_takes_and_drops_the_tokens_of_one_database() {
    let table = Arc::new(source::tests::InMemory::default());
    let source = TokenSource::Table(table.clone());
    let replicas = [(); 2].map(|()| Access::by(&source, false).unwrap());
    let zorro = Owner::new("zorro").unwrap();
    let lets = |access: &Access, secret: &str| {
        ask(access, &with("authorization", &format!("Bearer {secret}"))).is_ok()
    };
    assert!(replicas.iter().all(|replica| !replica.is_on()));
    let (secret, token) = source.create(&zorro, Role::Admin, Limits::default()).unwrap();
    soon(|| replicas.iter().all(|replica| replica.is_on() && lets(replica, &secret)));
    let late = Access::by(&source, false).unwrap();
    assert!(lets(&late, &secret));
    // A database that is away changes nothing.
    *table.is_away.lock() = true;
    std::thread::sleep(2 * LOOK);
    assert!(replicas.iter().all(|replica| lets(replica, &secret)));
    *table.is_away.lock() = false;
    assert!(source.revoke(&token.id).unwrap());
    soon(|| replicas.iter().all(|replica| replica.is_on() && !lets(replica, &secret)));
    // The thread of each ends with it.
    drop((replicas, late));
    soon(|| Arc::strong_count(&table) == 2);
}
