//! Tokens that change: in files, and from commands.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use multicluster_ray::{Class, Endpoint, Kind, RayClient, RayError, SubmitRequest, Timeouts};
use multicluster_testkit::{Endpoint as Asked, FakeOptions, FakeRay};
use multicluster_types::Credential;

/// A folder of one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("multicluster-tokens-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

fn from_file(path: &Path) -> Credential {
    Credential::File { file: path.display().to_string().into() }
}

/// A script that prints what this file contains, and notes that it ran.
fn from_command(folder: &Folder, script: &str) -> Credential {
    let path = folder.0.display().to_string();
    let words = ["/bin/sh", "-c", script, "kubectl", &path].map(Arc::from);
    Credential::Command { command: words.into() }
}

const PRINT: &str = "echo ran >> $1/runs; cat $1/token";

fn runs(folder: &Folder) -> usize {
    fs::read_to_string(folder.0.join("runs")).unwrap_or_default().lines().count()
}

async fn safe(token: &str) -> FakeRay {
    FakeRay::start(FakeOptions::new("safe").token(token)).await
}

fn connect(fake: &FakeRay, token: Credential) -> RayClient {
    let endpoint = Endpoint { token: Some(token), ..Endpoint::new(fake.url()) };
    RayClient::new(&endpoint, Timeouts::default()).unwrap()
}

fn told(error: &RayError) -> String {
    error.unauthorized().expect("it is unauthorized").to_string()
}

#[tokio::test]
async fn a_token_that_was_replaced_is_read_again_before_a_refusal_counts() {
    let (folder, fake) = (Folder::new("replaced"), safe("first-token").await);
    let file = folder.write("token", "first-token\n");
    let ray = connect(&fake, from_file(&file));
    ray.submit(&SubmitRequest::new("a", "sleep 60")).await.unwrap();
    for (number, call) in ["read", "submit", "tail", "upload"].into_iter().enumerate() {
        let token = format!("token-{number}");
        fs::write(&file, &token).unwrap();
        fake.set_token(&token);
        match call {
            "read" => drop(ray.facts().await.unwrap()),
            "submit" => drop(ray.submit(&SubmitRequest::new("b", "sleep 60")).await.unwrap()),
            "tail" => assert!(ray.tail("a").await.unwrap().is_some()),
            _ => ray.put_package("p.zip", bytes::Bytes::from_static(b"PK")).await.unwrap(),
        }
    }
    assert_eq!(fake.submissions().len(), 2, "nothing is carried out twice");
    assert_eq!(ray.token().await.unwrap().as_deref(), Some("token-3"));
}

#[tokio::test]
async fn a_token_that_was_replaced_is_used_soon_although_the_old_one_works() {
    let (folder, fake) = (Folder::new("soon"), safe("first-token").await);
    let file = folder.write("token", "first-token");
    let ray = connect(&fake, from_file(&file));
    assert_eq!(ray.token().await.unwrap().as_deref(), Some("first-token"));
    fs::write(&file, "second-token").unwrap();
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    assert_eq!(ray.token().await.unwrap().as_deref(), Some("second-token"));
    // A file that is being replaced, or half written, changes nothing.
    for content in ["", "two words"] {
        fs::write(&file, content).unwrap();
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        assert_eq!(ray.token().await.unwrap().as_deref(), Some("second-token"), "{content:?}");
    }
}

#[tokio::test]
async fn what_is_refused_is_named_and_never_shown() {
    let (folder, fake) = (Folder::new("named"), safe("right-token").await);
    let file = folder.write("token", "hunter2-hunter2");
    let ray = connect(&fake, from_file(&file));
    let error = ray.facts().await.unwrap_err();
    assert_eq!((error.kind, error.class, error.status), (Kind::Denied, Class::Permanent, Some(403)));
    let shown = file.display();
    assert_eq!(
        told(&error),
        format!("token_file {shown} was refused: Forbidden: Invalid authentication token (HTTP 403)")
    );
    fs::remove_file(&file).unwrap();
    let refused = told(&ray.facts().await.unwrap_err());
    assert!(
        refused.starts_with(&format!("token_file {shown} was refused, and there is no other: token_file {shown} cannot be read: No such file")),
        "{refused}"
    );
    // Before anything was ever read, there is nothing to show.
    let error = connect(&fake, from_file(&file)).facts().await.unwrap_err();
    assert_eq!((error.kind, error.class), (Kind::NoToken, Class::Transient));
    assert!(told(&error).starts_with(&format!("token_file {shown} cannot be read")), "{error}");

    let given = connect(&fake, "hunter2-hunter2".into()).facts().await.unwrap_err();
    assert!(told(&given).starts_with("the token was refused: Forbidden"), "{given}");
    let none = RayClient::new(&Endpoint::new(fake.url()), Timeouts::default()).unwrap();
    let none = none.facts().await.unwrap_err();
    assert!(told(&none).starts_with("a request without a token was refused: Unauthorized"), "{none}");
    for error in [error, given, none] {
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    }
}

#[tokio::test]
async fn a_header_in_a_file_is_read_again_too() {
    let (folder, fake) = (Folder::new("header"), safe("first-token").await);
    let file = folder.write("key", "Bearer first-token\n");
    let headers = vec![("Authorization".to_owned(), from_file(&file))];
    let endpoint = Endpoint { headers, ..Endpoint::new(fake.url()) };
    let ray = RayClient::new(&endpoint, Timeouts::default()).unwrap();
    ray.facts().await.unwrap();
    fs::write(&file, "Bearer second-token").unwrap();
    fake.set_token("second-token");
    ray.facts().await.unwrap();
    fake.set_token("third-token");
    let refused = told(&ray.facts().await.unwrap_err());
    assert!(refused.starts_with(&format!("the header authorization from {} was refused", file.display())));
}

#[tokio::test]
async fn a_command_is_run_once_and_again_when_its_token_is_refused() {
    let (folder, fake) = (Folder::new("command"), safe("first-token").await);
    folder.write("token", "first-token\n");
    let ray = connect(&fake, from_command(&folder, PRINT));
    for _ in 0..5 {
        ray.facts().await.unwrap();
    }
    assert_eq!(runs(&folder), 1, "its token is kept");
    assert_eq!(ray.token().await.unwrap().as_deref(), Some("first-token"));

    // Not at once: a cluster that refuses everything would have it run all the time.
    fake.set_token("second-token");
    folder.write("token", "second-token\n");
    let error = ray.facts().await.unwrap_err();
    assert!(told(&error).starts_with("token_command sh was refused: Forbidden"), "{error}");
    tokio::time::sleep(Duration::from_secs(5)).await;
    ray.facts().await.unwrap();
    assert_eq!(runs(&folder), 2);
}

#[tokio::test]
async fn a_command_that_fails_is_named_with_its_last_line() {
    let (folder, fake) = (Folder::new("fails"), safe("t0ken").await);
    let script = "echo ran >> $1/runs; echo first >&2; echo 'error: You must be logged in' >&2; exit 3";
    let ray = connect(&fake, from_command(&folder, script));
    for _ in 0..3 {
        let error = ray.facts().await.unwrap_err();
        assert_eq!((error.kind, error.class), (Kind::NoToken, Class::Transient));
        assert_eq!(told(&error), "token_command sh failed: exit code 3: error: You must be logged in");
    }
    assert_eq!((runs(&folder), fake.request_count(Asked::Any)), (1, 0), "nothing was sent");
    let talkative = connect(&fake, from_command(&folder, "echo logged in as; cat $1/runs"));
    let error = talkative.facts().await.unwrap_err();
    assert_eq!(told(&error), "token_command sh failed: it did not print a token alone");
}
