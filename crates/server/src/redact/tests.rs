//! Which secrets are hidden.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::clusters::resolve::tests::{any_env, env};

#[test]
fn variables_are_hidden_by_their_name() {
    for name in [
        "TOKEN",
        "HF_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "aws_session_token",
        "apiKey",
        "ApiKey2",
        "db-password",
        "PGPASSWORD",
        "MYSQL_PWD",
        "GITHUBTOKEN",
        "GITHUB_PAT",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "Authorization",
        "SSH_AUTH_SOCK",
        "SENTRY_DSN",
        "PASSWD",
        "my.secret",
        "WANDB_API_KEY",
        "OPENAIAPIKEY",
        "AZURE_SAS",
    ] {
        let shown = redact(&env(json!({"env_vars": {name: "hunter2"}})));
        assert_eq!(shown["env_vars"][name], "<redacted>", "{name}");
    }
    for name in [
        "PATH",
        "PWD",
        "PYTHONPATH",
        "TOKENIZERS_PARALLELISM",
        "MONKEY",
        "KEYBOARD",
        "AUTHOR",
        "home_dir",
        "MAX_TOKENS",
        "TOKENS_PER_STEP",
        "PASSENGERS",
        "COMPASS",
        "RAY_MULTICLUSTER_JOB_ID",
        "",
    ] {
        let shown = redact(&env(json!({"env_vars": {name: "hunter2"}})));
        assert_eq!(shown["env_vars"][name], "hunter2", "{name}");
    }
}

#[test]
fn credentials_within_texts_are_hidden() {
    for (text, expected) in [
        ("https://user:pw@host/x", "https://<redacted>@host/x"),
        ("https://ghp_token@github.com/x@v1", "https://<redacted>@github.com/x@v1"),
        ("git+https://t:x-oauth-basic@host/x.git@main", "git+https://<redacted>@host/x.git@main"),
        ("HTTPS://u:p@ss@host", "HTTPS://<redacted>@host"),
        ("https://github.com/x/y@v1.0", "https://github.com/x/y@v1.0"),
        ("postgres://ann:pw@db/x", "postgres://ann:<redacted>@db/x"),
        ("redis://:pw@cache", "redis://:<redacted>@cache"),
        ("git+ssh://git@github.com/x", "git+ssh://git@github.com/x"),
        ("abfss://container@account/x", "abfss://container@account/x"),
        ("--index-url=https://u:p@h/simple x", "--index-url=https://<redacted>@h/simple x"),
        ("https://h/x.zip?a=1&sig=abc%3D&b=2", "https://h/x.zip?a=1&sig=<redacted>&b=2"),
        ("https://h/x?X-Amz-Signature=abc", "https://h/x?X-Amz-Signature=<redacted>"),
        ("TOKEN=abc python x.py", "TOKEN=<redacted> python x.py"),
        ("API_KEY='a b'c python x.py", "API_KEY=<redacted> python x.py"),
        ("run --password=a,b --n=1", "run --password=<redacted> --n=1"),
        ("run --token abc --n 1", "run --token <redacted> --n 1"),
        ("run --token \"a b\" --n 1", "run --token <redacted> --n 1"),
        ("run --use-token --n 1", "run --use-token --n 1"),
        ("run --max-tokens 512", "run --max-tokens 512"),
        ("curl -H \"Authorization: Bearer abc\" h", "curl -H \"Authorization: <redacted>\" h"),
        ("curl -H 'authorization:Basic dXNlcjpwdw==' h", "curl -H 'authorization:<redacted>' h"),
        ("curl -H 'X-Api-Key: a b' h", "curl -H 'X-Api-Key: <redacted>' h"),
        ("curl -u ann:hunter2 h", "curl -u <redacted> h"),
        ("python -u train.py", "python -u train.py"),
        ("Server=h;Uid=ann;Pwd=hunter2;", "Server=h;Uid=ann;Pwd=<redacted>;"),
        ("PWD=/home/ann python x.py", "PWD=/home/ann python x.py"),
        ("password: hunter2 of ann", "password: <redacted> of ann"),
        ("HF_TOKEN: abc", "HF_TOKEN: <redacted>"),
        ("bad token: it is too short", "bad token: it is too short"),
        ("connect to secret-host:8080", "connect to secret-host:8080"),
        ("refused rmc_0123456789abcdef0123, sorry", "refused <redacted>, sorry"),
        ("the key rmk_0123456789abcdef0123", "the key <redacted>"),
        ("key hf_AbCdEfGhIjKlMnOpQr?", "key <redacted>?"),
        ("hf_finetune_llama_2026_11_18", "hf_finetune_llama_2026_11_18"),
        ("sk-proj-AbCdEfGh0123-IjKlMnOpQr", "<redacted>"),
        ("sk-learn-benchmark-2026-11-18", "sk-learn-benchmark-2026-11-18"),
        ("got eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln", "got <redacted>"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nx",
            "-----BEGIN RSA PRIVATE KEY-----<redacted>-----END RSA PRIVATE KEY-----\nx",
        ),
        ("AccountName=x;AccountKey=ab==;Suffix=y", "AccountName=x;AccountKey=<redacted>;Suffix=y"),
        ("TOKEN= x", "TOKEN= x"),
        ("python x.py --lr=0.1", "python x.py --lr=0.1"),
        ("", ""),
    ] {
        assert_eq!(redact_text(text), expected, "{text}");
    }
}

#[test]
fn secrets_are_hidden_wherever_they_are() {
    let shown = redact(&env(json!({
        "pip": {"packages": ["a", "b @ https://u:hunter2@h/b.zip"], "pip_install_options": ["--index-url", "https://u:hunter2@h", "--token", "hunter2", "--token", "--x"]},
        "working_dir": "https://h/x.zip?token=hunter2",
        "container": {"run_options": ["-e", "API_TOKEN=hunter2"]},
        "config": {"api_key": {"deep": "hunter2"}, "n": 1},
        "conda": "ts",
    })));
    let shown = Value::Object(shown);
    assert!(!shown.to_string().contains("hunter2"), "{shown}");
    assert_eq!(shown["pip"]["packages"], json!(["a", "b @ https://<redacted>@h/b.zip"]));
    assert_eq!(
        shown["pip"]["pip_install_options"],
        json!(["--index-url", "https://<redacted>@h", "--token", "<redacted>", "--token", "--x"])
    );
    assert_eq!((&shown["conda"], &shown["config"]["n"]), (&json!("ts"), &json!(1)));
}

#[test]
fn what_ray_repeats_of_a_runtime_env_is_hidden() {
    for (said, shown) in [
        (
            "env 'ts' from the runtime env {'conda': 'ts', 'env_vars': {'HF_TOKEN': 'a\\'b', 'MODE': 'fast'}} doesn't exist",
            "env 'ts' from the runtime env {'conda': 'ts', 'env_vars': {'HF_TOKEN': <redacted>, 'MODE': 'fast'}} doesn't exist",
        ),
        (r#"{"api_key":"x","n":1}"#, r#"{"api_key":<redacted>,"n":1}"#),
        (r#""{\"TOKEN\": \"a b\", \"A\": \"c\"}""#, r#""{\"TOKEN\": <redacted>, \"A\": \"c\"}""#),
        (r#"{'PIN_SECRET': 1234, "A": 5}"#, r#"{'PIN_SECRET': <redacted>, "A": 5}"#),
        ("{'DB_PASSWORD': 'cut o…", "{'DB_PASSWORD': <redacted>"),
        ("12:30: 'token': ", "12:30: 'token': "),
        ("a: b, 'PATH': '/bin'", "a: b, 'PATH': '/bin'"),
    ] {
        assert_eq!(redact_text(said), shown);
    }
}

#[test]
fn long_texts_take_no_time() {
    let began = Instant::now();
    for piece in [
        "://",
        "=",
        ":",
        "'token':",
        "\\",
        "token=",
        "--token ",
        "a@",
        "x-key:",
        "eyJ.",
        "PRIVATE KEY-----",
        "://a:b@",
        "'",
        "bearer ",
    ] {
        let text = piece.repeat((1 << 20) / piece.len());
        assert!(!redact_text(&text).is_empty());
    }
    // It would take minutes if each piece looked back at all pieces before it.
    assert!(began.elapsed() < Duration::from_secs(60));
}

/// Ways in which a secret gets into a text.
const SHAPES: [&str; 13] = [
    "{'HF_TOKEN': 'hunter+2', 'A': 'b'}",
    "{\"api_key\": \"hunter+2\"}",
    "{\\\"DB_PASSWORD\\\": \\\"hunter+2\\\"}",
    "TOKEN=hunter+2",
    "--api-key=hunter+2",
    "--password hunter+2",
    "https://hunter+2@host",
    "redis://:hunter+2@host",
    "https://h/?sig=hunter+2",
    "'Bearer hunter+2'",
    "DB_PASSWORD='x hunter+2'",
    "Authorization: Basic hunter+2",
    "X-Api-Key: hunter+2",
];

proptest! {
    #[test]
    fn secrets_are_hidden_amid_anything(
        before in r#"(x=|--n |https://h/|[a-z:@/=& '"-]){0,8}"#, shape in prop::sample::select(SHAPES.to_vec()), after in ".{0,20}"
    ) {
        let text = format!("{before} {shape} {after}");
        prop_assert!(!redact_text(&text).contains("hunter+2"), "{}", redact_text(&text));
    }

    #[test]
    fn any_text_and_env_is_fine(text in ".{0,60}", env in any_env()) {
        let _ = (redact_text(&text), redact(&env));
    }
}

#[test]
fn metadata_shows_names_and_hides_what_is_secret() {
    let given = [("api_token", "hunter2"), ("mirror", "https://u:hunter2@h/x"), ("team", "quant")];
    let given = given.map(|(name, text)| (name.to_owned(), text.to_owned())).into();
    let shown = redact_metadata(&given);
    assert_eq!(shown["team"], "quant");
    assert_eq!(shown["api_token"], "<redacted>");
    assert!(!format!("{shown:?}").contains("hunter2"), "{shown:?}");
}

#[test]
fn a_configuration_is_shown_without_its_secrets_and_they_are_known() {
    let file = json!({"clusters": [{
        "name": "mac", "token": 12345678, "token_file": "~/token", "headers": {"X-Team": "hunter2"},
        "token_command": ["kubectl", "hunter3"],
    }]});
    let shown = redact_config(&file);
    assert_eq!(
        shown,
        json!({"clusters": [{
            "name": "mac", "token": REDACTED, "token_file": "~/token", "headers": {"X-Team": REDACTED},
            "token_command": ["kubectl", REDACTED],
        }]})
    );
    let mut hidden = hidden_texts(&file, &shown);
    hidden.sort();
    assert_eq!(hidden, ["12345678", "hunter2", "hunter3"]);
}
