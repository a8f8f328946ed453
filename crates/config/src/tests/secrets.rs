//! Values under `runtime_env` are never shown, however the file is broken.

use multicluster_types::Credential;
use proptest::prelude::*;

use super::{Folder, centos, errors, ok};

/// Does not look like the name of a key, even in a broken file: names may be shown.
const SECRET: &str = "hunter+2";

fn shown(text: &str) -> String {
    super::parse(text).expect_err("should be refused").to_string()
}

#[test]
fn errors_inside_env_vars_show_the_key_alone() {
    for (yaml, line) in [
        ("    runtime_env:\n      env_vars:\n        A: [hunter+2]\n", 7),
        ("    runtime_env:\n      env_vars:\n        A: {hunter+2: hunter+2}\n", 7),
        ("    runtime_env:\n      env_vars:\n        - A=hunter+2\n", 7),
        ("    runtime_env:\n      env_vars: hunter+2 # hunter+2\n", 6),
        ("    runtime_env: hunter+2\n", 5),
        ("    runtime_env: [hunter+2]\n", 5),
        ("    runtime_env:\n      env_vars:\n        A=B: hunter+2 # hunter+2\n", 7),
        ("    runtime_env:\n      ratio: [hunter+2, .nan]\n", 6),
        // Text that cannot be parsed at all.
        ("    runtime_env:\n      env_vars:\n        A: !hunter+2 hunter+2\n", 7),
        ("    runtime_env:\n      env_vars:\n        A: hunter+2: hunter+2\n", 7),
        ("    runtime_env:\n      env_vars:\n        A: '1' hunter+2\n", 7),
        ("    runtime_env:\n      env_vars:\n        A: *hunter+2\n", 7),
        ("    runtime_env:\n      env_vars:\n        A: @hunter+2\n", 7),
        ("    runtime_env:\n      env_vars:\n      hunter+2\n", 7),
        ("    runtime_env:\n      env_vars:\n        A: hunter+2\n        A: hunter+2\n", 8),
        ("    runtime_env: {env_vars: {A: hunter+2, A: hunter+2}}\n", 5),
    ] {
        let text = centos(yaml);
        assert!(!shown(&text).contains(SECRET), "{yaml}{}", shown(&text));
        assert_eq!(super::line(&errors(&text)[0]), line, "{yaml}");
    }
}

#[test]
fn a_forgotten_space_does_not_make_a_secret_a_key() {
    insta::assert_snapshot!(shown(&centos("    runtime_env: {env_vars: {A: x, TOKEN:hunter+2}}\n")), @r#"
    cluster.yaml:5:36: TOKEN… has no value
        5 |     runtime_env: {env_vars: {A: …
          |                                 ^
      hint: write `NAME: text`, {env: VARIABLE} or {file: PATH}; for an empty text write ""
    "#);
    insta::assert_snapshot!(shown(&centos("    runtime_env:\n      env_vars:\n        TOKEN:hunter+2\n        B: c\n")), @"
    cluster.yaml:8:10: a `:` is not allowed here
        8 |         B: …
          |          ^
      hint: put a value that contains `: ` in quotes, or check the indentation
    ");
    insta::assert_snapshot!(shown(&centos("    TOKEN=hunter+2:\n")), @"
    cluster.yaml:5:5: unknown key TOKEN… in a cluster
        5 |     TOKEN …
          |     ^^^^^^^
      hint: known keys are name, head_address, dashboard, prefer, weight, tags, runtime_env, elastic, home_dir, inject_sdk, plane_address, token, token_env, token_file, token_command, headers, ca_file, insecure_tls, resource_threshold, submission_interval, execution_mode, max_running_jobs, driver_memory, head_memory_share
    ");
}

#[test]
fn other_errors_on_the_line_of_a_secret_do_not_show_it() {
    for text in [
        "clusters: [{name: a, head_address: 'h:1', dashboard: 'http://h', runtime_env: {env_vars: {A: hunter+2}}, weight: -1}]",
        "clusters: [{runtime_env: {env_vars: {A: hunter+2}}, nmae: x}]",
        "clusters: [{runtime_env: {env_vars: {A: hunter+2, A: hunter+2}}, weight: -1, tags: [a b]}]",
        "clusters: [{env_vars: {A: hunter+2}}]",
        "x: &env {A: hunter+2}\nclusters: [{name: -, runtime_env: {env_vars: *env}}]",
    ] {
        assert!(!shown(text).contains(SECRET), "{}", shown(text));
    }
}

#[test]
fn a_value_under_an_unknown_key_is_not_shown() {
    assert!(!shown(&centos("    pasword: hunter+2\n")).contains(SECRET));
    assert!(!shown(&centos("env_vras: {A: hunter+2}\n")).contains(SECRET));
}

#[test]
fn a_password_in_an_address_is_not_shown() {
    let text = centos("").replace("http://", "http://admin:hunter+2@");
    insta::assert_snapshot!(shown(&text), @"
    cluster.yaml:4:5: dashboard: there is a user name or password in the address
        4 |     dashboard: …
          |     ^^^^^^^^^
      hint: write http://host:port of Ray's dashboard, such as http://192.168.5.7:8265
    ");
}

#[test]
fn escape_sequences_do_not_reach_the_terminal() {
    let text = centos("    weight: \"\\e[2J\u{202e}\"\n    \"a\\eb\u{7f}\": 1\n");
    let shown = shown(&text);
    assert!(!shown.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}'), "{shown:?}");
}

proptest! {
    /// Cut, repeat or change a valid file anywhere: the secret is kept.
    #[test]
    fn no_broken_file_shows_its_secrets(
        at in 0.0..1.0f64, remove in 0usize..4, insert in "[ \\-\\[\\]{}:,'\"!&*#|>@`%\t\na]{0,3}", flow: bool
    ) {
        let file = if flow {
            centos("    runtime_env: {conda: ts, env_vars: {TOKEN: hunter+2, B: 'hunter+2', C: [hunter+2]}}\n    weight: -1\n")
        } else {
            centos("    runtime_env:\n      conda: ts\n      env_vars:\n        TOKEN: hunter+2\n        B: 'hunter+2'\n        C: |\n          hunter+2\n          hunter+2\n    weight: -1\n")
        };
        let secrets = file.find("runtime_env").unwrap();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        let at = secrets + "runtime_env:".len() + ((file.len() - secrets - 30) as f64 * at) as usize;
        let end = (at + remove).min(file.len());
        let broken = format!("{}{insert}{}", &file[..at], &file[end..]);
        if let Err(error) = super::parse(&broken) {
            let shown = error.to_string();
            prop_assert!(!shown.contains(SECRET), "{broken}\n{shown}");
        }
    }
}

#[test]
fn variables_may_be_read_from_elsewhere() {
    let folder = Folder::new("secrets");
    folder.write("db", "hunter+2 \r\n");
    let yaml = centos(
        "    runtime_env:\n      env_vars:\n        MODE: fast\n        DB: {file: db}\n        API: {env: API_KEY}\n    headers: {X-Key: {env: API_KEY}}\n",
    );
    let file = folder.write("cluster.yaml", yaml);
    let env = [("API_KEY".to_owned(), "k-1".to_owned())];
    let config = crate::load(&file, env).unwrap();
    let cluster = &config.clusters[0];
    assert_eq!(
        serde_json::to_value(&*cluster.runtime_env).unwrap(),
        serde_json::json!({"env_vars": {"MODE": "fast"}})
    );
    let secrets: Vec<_> =
        cluster.secret_vars.iter().map(|(name, secret)| (name.as_str(), secret.expose())).collect();
    assert_eq!(secrets, [("API", "k-1"), ("DB", "hunter+2 ")]);
    assert_eq!(cluster.connection.headers["x-key"], Credential::given("k-1"));
    assert_eq!(config.files, [folder.0.join("db")], "the configuration is read again when it changes");

    let refused = crate::load(&file, super::NO_ENV).unwrap_err().to_string();
    assert!(refused.contains(":9:9: API: the environment variable API_KEY is not set"), "{refused}");
    for (content, message) in [
        (vec![b'a'; (128 << 10) + 1], "DB: the file cannot be read: it is larger than 128 KiB"),
        (b"hunter+2\0".to_vec(), "DB: the file cannot be read: it is not a text"),
        (Vec::new(), "API: the environment variable API_KEY is not set"),
        (vec![0xff], "DB: the file cannot be read: stream did not contain valid UTF-8"),
    ] {
        folder.write("db", content);
        let refused = crate::load(&file, super::NO_ENV).unwrap_err().to_string();
        assert!(refused.contains(message) && !refused.contains(SECRET), "{refused}");
    }
    let home = [("HOME".to_owned(), "/root".to_owned())];
    for (from, message) in [
        ("{file: .}", "A: the file cannot be read: it is not a file"),
        ("{file: /dev/zero}", "A: the file cannot be read: it is not a file"),
        ("{file: /dev/null}, home_dir: {env: HOME}", "home_dir is shown and used to translate paths"),
    ] {
        let text = centos(&format!("    runtime_env: {{env_vars: {{A: {from}}}}}\n"));
        let refused = crate::load(&folder.write("cluster.yaml", text), home.clone()).unwrap_err().to_string();
        assert!(refused.contains(message), "{refused}");
    }
}

#[test]
fn what_is_no_source_of_a_variable_is_told() {
    const HINT: &str = "write `NAME: text`, {env: VARIABLE} or {file: PATH}; for an empty text write \"\"";
    for wrong in ["{}", "{evn: A}", "{env: A, file: b}", "{file: [b]}", "[A]"] {
        let text = centos(&format!("    runtime_env: {{env_vars: {{A: {wrong}}}}}\n"));
        let error = &errors(&text)[0];
        assert!(error.message.starts_with("A cannot be"), "{wrong}: {}", error.message);
        assert_eq!(error.hint, HINT, "{wrong}");
    }
    for elsewhere in ["{file: /etc/hostname}", "{env: HOME}"] {
        let told = shown(&centos(&format!("    runtime_env: {{env_vars: {{A: {elsewhere}}}}}\n")));
        assert!(told.contains("A: neither files nor variables are read here"), "{told}");
    }
}

#[test]
fn a_good_file_has_nothing_to_hide() {
    assert_eq!(ok(&centos("    runtime_env: {env_vars: {A: hunter+2}}\n")).warnings, []);
}
