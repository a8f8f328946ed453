//! The connection of a cluster: what is accepted, refused, and never shown.

use multicluster_types::Credential;

use super::{Folder, centos, error, ok};
use crate::{Config, ConfigError};

fn with_env(more: &str, env: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    crate::parse(&centos(more), "cluster.yaml", env)
}

fn token(config: &Config) -> Option<&Credential> {
    config.clusters[0].connection.token.as_ref()
}

fn given(text: &str) -> Credential {
    Credential::given(text)
}

#[test]
fn a_cluster_is_reached_as_its_keys_say() {
    let config = ok(&centos(
        "    home_dir: /home/zorro/
    inject_sdk: true
    plane_address: http://10.0.0.1:8700/
    token: abc.def
    headers: {X-Team: quant, x-key: 12}
    ca_file: /etc/ca.pem
",
    ));
    let cluster = &config.clusters[0];
    assert_eq!((cluster.home(), cluster.inject_sdk), (Some("/home/zorro"), Some(true)));
    assert_eq!(cluster.plane_address.as_deref(), Some("http://10.0.0.1:8700"));
    assert_eq!(token(&config), Some(&given("abc.def")));
    let headers: Vec<_> =
        cluster.connection.headers.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    assert_eq!(headers, [("x-key", given("12")), ("x-team", given("quant"))]);
    assert_eq!(cluster.connection.ca_file.as_deref(), Some("/etc/ca.pem"));
    assert!(!cluster.connection.insecure_tls);
    assert!(!format!("{config:?}").contains("abc.def"), "not shown by Debug");
}

#[test]
fn another_copy_of_the_sdk_on_the_path_is_warned_of() {
    let warned = |path: &str| {
        let file = centos(&format!("    runtime_env: {{env_vars: {{PYTHONPATH: '{path}'}}}}\n"));
        let told =
            |warning: &crate::Diagnostic| (warning.place.clone().unwrap().line, warning.message.clone());
        ok(&file).warnings.iter().map(told).collect::<Vec<_>>()
    };
    let said = |number| {
        (
            5,
            format!(
                "entry {number} of PYTHONPATH names another copy of the Python SDK (ray_multicluster_scheduler)"
            ),
        )
    };
    // A real path of the users.
    let theirs = "/home/zorro/project/quant:/home/zorro/pycharm/ray_multicluster_scheduler:${PYTHONPATH}";
    assert_eq!(warned(theirs), [said(2)]);
    assert_eq!(warned("/a/ray_multicluster_scheduler/ : /b/ray_multicluster_scheduler"), [said(1), said(2)]);
    assert_eq!(warned("/home/zorro/quant:/srv/ray_multicluster_scheduler/python:${PYTHONPATH}"), []);

    // A copy on this machine is recognised by its content, if the file may refer to this machine.
    let folder = Folder::new("copy");
    let package = folder.0.join("libs").join("ray_multicluster_scheduler");
    std::fs::create_dir_all(&package).unwrap();
    std::fs::write(package.join("__init__.py"), "").unwrap();
    let path = format!("/x:{}", folder.0.join("libs").display());
    assert_eq!(warned(&path), [], "mere text");
    let file = folder
        .write("cluster.yaml", centos(&format!("    runtime_env: {{env_vars: {{PYTHONPATH: '{path}'}}}}\n")));
    let config = crate::load(&file, super::NO_ENV).unwrap();
    assert_eq!(
        config.warnings.iter().map(|warning| warning.message.clone()).collect::<Vec<_>>(),
        [said(2).1]
    );
}

#[test]
fn the_home_may_still_be_an_environment_variable() {
    let config = ok(&centos("    runtime_env: {env_vars: {home_dir: /Users/zorro/}}\n"));
    assert_eq!(config.clusters[0].home(), Some("/Users/zorro"));
}

#[test]
fn a_token_may_come_from_a_variable() {
    let config = with_env("    token_env: CENTOS_TOKEN\n", &[("CENTOS_TOKEN", " t0ken\n")]).unwrap();
    assert_eq!(token(&config), Some(&given("t0ken")));
    insta::assert_snapshot!(with_env("    token_env: CENTOS_TOKEN\n", &[("OTHER", "x")]).unwrap_err(), @"
    cluster.yaml:5:5: token_env: the environment variable CENTOS_TOKEN is not set
        5 |     token_env: …
          |     ^^^^^^^^^
      hint: export it before the control plane starts; write the name of a variable, not its value
    ");
}

#[test]
fn a_token_may_come_from_a_file_beside_the_configuration() {
    let folder = Folder::new("token");
    folder.write("token", "t0ken\n");
    let load = |more: &str, env: &[(String, String)]| {
        crate::load(&folder.write("cluster.yaml", centos(more)), env.iter().cloned())
    };
    let config = load("    token_file: token\n    ca_file: ca.pem\n", &[]).unwrap();
    let there = Credential::File { file: folder.0.join("token").display().to_string().into() };
    assert_eq!(token(&config), Some(&there), "it is read again when it is used");
    assert!(config.files.is_empty());
    let ca = folder.0.join("ca.pem").display().to_string();
    assert_eq!(config.clusters[0].connection.ca_file.as_deref(), Some(ca.as_str()));

    let home = [("HOME".to_owned(), folder.0.display().to_string())];
    assert_eq!(token(&load("    token_file: ~/token\n", &home).unwrap()), Some(&there));

    let error = load("    token_file: nowhere\n", &[]).unwrap_err().to_string();
    assert!(error.contains(":5:5: token_file: the file cannot be read: No such file"), "{error}");
    folder.write("token", "a b");
    let error = load("    token_file: token\n", &[]).unwrap_err().to_string();
    assert!(error.contains("token_file: this is not a bearer token"), "{error}");
}

#[test]
fn a_token_may_come_from_a_command() {
    let folder = Folder::new("command");
    let load = |words: &str| {
        let file = folder.write("cluster.yaml", centos(&format!("    token_command: {words}\n")));
        crate::load(&file, super::NO_ENV).unwrap()
    };
    let command =
        |words: &[&str]| Credential::Command { command: words.iter().map(|w| (*w).into()).collect() };
    let config = load("[kubectl, create, token, ray, --duration=1h, 7]");
    let words = ["kubectl", "create", "token", "ray", "--duration=1h", "7"];
    assert_eq!(token(&config), Some(&command(&words)));
    assert_eq!(token(&load("[/opt/my tools/token]")), Some(&command(&["/opt/my tools/token"])));
    let there = folder.0.join("bin/token").display().to_string();
    assert_eq!(token(&load("[bin/token, x]")), Some(&command(&[&there, "x"])));
}

#[test]
fn a_header_may_come_from_a_file() {
    let folder = Folder::new("header");
    let key = folder.write("key", "k-1\n");
    let file = folder.write("cluster.yaml", centos("    headers: {X-Key: {file: key}}\n"));
    let config = crate::load(&file, super::NO_ENV).unwrap();
    let there = Credential::File { file: key.display().to_string().into() };
    assert_eq!(config.clusters[0].connection.headers["x-key"], there);
}

#[test]
fn mistakes_are_told() {
    const HEADERS: &str = "write a mapping of names to texts: {X-Team: quant}";
    const HOME: &str = "write an absolute path, such as /home/zorro";
    const TWO: &str = "remove one of the two";
    const COMMAND: &str = "write a program and its arguments as a list: [kubectl, create, token, ray]";
    const TOKEN: &str = "write the token alone, without `Bearer`; or name a variable with token_env";
    for (more, message, hint) in [
        ("    home_dir: zorro", "5:15 home_dir \"zorro\" cannot be a home directory", HOME),
        ("    home_dir: /", "5:15 home_dir \"/\" cannot be a home directory", HOME),
        ("    home_dir: /a/../b", "5:15 home_dir \"/a/../b\" cannot be a home directory", HOME),
        ("    home_dir: [x]", "5:15 home_dir cannot be a list", HOME),
        ("    inject_sdk: 1", "5:17 inject_sdk cannot be a number", "write true or false, without quotes"),
        (
            "    plane_address: 10.0.0.1:8700",
            "5:20 plane_address \"10.0.0.1:8700\": http:// is missing",
            "write http://10.0.0.1:8700",
        ),
        ("    token:", "5:5 token has no value", TOKEN),
        ("    token: Bearer abc", "5:5 token: this is not a bearer token", TOKEN),
        ("    token: ''", "5:5 token: this is not a bearer token", TOKEN),
        (
            "    token_file: x",
            "5:5 token_file: neither files nor variables are read here",
            "send the value itself, or describe the cluster in the file of the control plane",
        ),
        (
            "    token: a\n    token_file: b",
            "6:5 token_file and token are both given",
            "keep one of token, token_env, token_file and token_command",
        ),
        (
            "    token: a\n    token_command: [b]",
            "6:5 token_command and token are both given",
            "keep one of token, token_env, token_file and token_command",
        ),
        ("    token_command: kubectl", "5:20 token_command cannot be text", COMMAND),
        ("    token_command: []", "5:5 token_command: there is no program to run", COMMAND),
        ("    token_command: ['']", "5:5 token_command: there is no program to run", COMMAND),
        (
            "    token_command: [kubectl, [x]]",
            "5:5 token_command: every word of the command must be a text",
            COMMAND,
        ),
        (
            "    token_command: [kubectl create token]",
            "5:5 token_command: the command is one text, and no shell takes it apart",
            COMMAND,
        ),
        (
            "    token_command: [kubectl]",
            "5:5 token_command: no commands are run from here",
            "send the token itself, or describe the cluster in the file of the control plane",
        ),
        ("    headers: x", "5:14 headers cannot be text", HEADERS),
        ("    headers: {'a b': x}", "5:15 the header a… has a name that cannot be sent", HEADERS),
        (
            "    headers: {Host: x}",
            "5:15 the header Host cannot be set: the control plane sets it itself",
            "remove it",
        ),
        (
            "    headers: {Sec-Fetch-Mode: x}",
            "5:15 the header Sec-Fetch-Mode cannot be set: Ray would take the control plane for a browser and refuse its requests",
            "remove it",
        ),
        ("    headers: {A: x, a: y}", "5:21 the header a is given twice", TWO),
        (
            "    headers: {A: \"x\\ny\"}",
            "5:15 the value of the header A cannot be sent",
            "use printable ASCII characters, on one line",
        ),
        (
            "    headers: {Authorization: x}\n    token: t",
            "5:15 the header authorization and token are both given",
            TWO,
        ),
        ("    ca_file: ''", "5:14 ca_file is not a path", "write the path of a PEM file"),
        (
            "    ca_file: x\n    insecure_tls: true",
            "6:5 insecure_tls takes any certificate, so ca_file would mean nothing",
            "remove one of the two; ca_file is the safe one",
        ),
        (
            "    insecure_tls: maybe",
            "5:19 insecure_tls cannot be text",
            "write true or false, without quotes",
        ),
    ] {
        super::assert_told(&centos(&format!("{more}\n")), message, hint);
    }
}

#[test]
fn tokens_and_headers_are_never_shown() {
    for more in [
        "    token: hunter+2 hunter+2\n",
        "    token: [hunter+2]\n",
        "    token: {hunter+2: x}\n",
        "    token_env: hunter+2\n",
        "    token_env: abcdefhunter+2\n",
        "    token_command: hunter+2\n",
        "    token_command: [curl, -u, hunter+2]\n",
        "    token_command: [curl, {hunter+2: x}]\n",
        "    headers: hunter+2\n",
        "    headers: {X-Key: [hunter+2]}\n",
        "    headers: {X-Key: 'hunter+2é'}\n",
        "    headers: {X-Key:hunter+2}\n",
        "    headers: {Host: hunter+2}\n",
        "    token: hunter+2\n    token_env: hunter+2\n",
        // On the line of another error, and where nothing can be parsed.
        "  - {name: b, token: hunter+2, weight: -1}\n",
        "    token: hunter+2\n    token: hunter+2\n",
        "    token: hunter+2: hunter+2\n",
        "    token: @hunter+2\n",
        "    headers:\n      X-Key: '1' hunter+2\n",
    ] {
        let shown = super::parse(&centos(more)).expect_err("should be refused").to_string();
        assert!(!shown.contains("hunter+2"), "{more}{shown}");
    }
    let shown = with_env("    token_env: T\n", &[("T", "hunter+2 hunter+2")]).unwrap_err().to_string();
    assert!(!shown.contains("hunter+2"), "{shown}");
}

/// A header that the client of a cluster refused later would make that cluster unhealthy.
#[test]
fn a_header_that_the_client_refuses_is_refused_at_once() {
    for header in ["Expect: x", "Range: x", "accept-encoding: gzip", "User-Agent: Mozilla/5.0", "TE: x"] {
        let error = error(&centos(&format!("    headers: {{{header}}}\n")));
        assert!(error.message.contains("cannot be set: "), "{header}: {}", error.message);
    }
    assert_eq!(ok(&centos("    headers: {User-Agent: curl}\n")).clusters[0].connection.headers.len(), 1);
}

#[test]
fn headers_are_bounded() {
    let many: String = (0..33).map(|n| format!("      x-{n}: y\n")).collect();
    let error = error(&centos(&format!("    headers:\n{many}")));
    assert_eq!(error.message, "33 headers, at most 32 are allowed");
}
