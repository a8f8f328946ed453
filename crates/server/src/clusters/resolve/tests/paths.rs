//! Homes translated in commands and values.

use std::{process::Command, time::Instant};

use proptest::prelude::*;
use serde_json::json;

use super::{
    super::{paths::Homes, shell},
    centos, mac, runtime_env_on,
};

const KNOWN: [&str; 4] = ["/home/zorro/", "/Users/zorro", "/Users/ann", "/home/zorro/deep/home"];

fn to_mac() -> Homes<'static> {
    Homes::new(Some("/Users/zorro"), KNOWN.into_iter())
}

#[test]
fn commands_are_translated_and_their_quoting_stays() {
    for (command, expected) in [
        ("python /home/zorro/x.py", "python /Users/zorro/x.py"),
        ("cd /home/zorro", "cd /Users/zorro"),
        ("cd /home/zorro/", "cd /Users/zorro/"),
        ("cd /home/zorro;ls", "cd /Users/zorro;ls"),
        ("cd /home/zorro&&ls", "cd /Users/zorro&&ls"),
        ("(cd /home/zorro)", "(cd /Users/zorro)"),
        ("run --a=/home/zorro/a --b /home/zorro/b", "run --a=/Users/zorro/a --b /Users/zorro/b"),
        ("X=/home/zorro/x cmd", "X=/Users/zorro/x cmd"),
        ("X=/home/zorro/a:/home/zorro/b:$X cmd", "X=/Users/zorro/a:/Users/zorro/b:$X cmd"),
        ("cmd -f a,/home/zorro/b,/Users/ann/c", "cmd -f a,/Users/zorro/b,/Users/zorro/c"),
        ("cmd '/home/zorro/my file'", "cmd '/Users/zorro/my file'"),
        ("cmd \"/home/zorro/my file\"", "cmd \"/Users/zorro/my file\""),
        ("cmd \"/home/zorro\"/x", "cmd \"/Users/zorro\"/x"),
        (r"cmd /home/zorro/my\ file", r"cmd /Users/zorro/my\ file"),
        ("cmd >/home/zorro/log 2>&1", "cmd >/Users/zorro/log 2>&1"),
        ("cmd < /home/zorro/in", "cmd < /Users/zorro/in"),
        ("bash -c \"cd /home/zorro && ls\"", "bash -c \"cd /Users/zorro && ls\""),
        ("bash -c 'cd /home/zorro; ls'", "bash -c 'cd /Users/zorro; ls'"),
        ("python -c 'open(\"/home/zorro/x\")'", "python -c 'open(\"/Users/zorro/x\")'"),
        ("cmd '{\"dir\": \"/home/zorro\"}'", "cmd '{\"dir\": \"/Users/zorro\"}'"),
        ("cmd $(cat /home/zorro/x) `cat /home/zorro/y`", "cmd $(cat /Users/zorro/x) `cat /Users/zorro/y`"),
        ("cmd $'/home/zorro/a\\'b' /home/zorro/c", "cmd $'/Users/zorro/a\\'b' /Users/zorro/c"),
        ("cp {/home/zorro/a,/home/zorro/b} .", "cp {/Users/zorro/a,/Users/zorro/b} ."),
        ("curl -d @/home/zorro/x", "curl -d @/Users/zorro/x"),
        ("scp host:/home/zorro/x .", "scp host:/Users/zorro/x ."),
        ("a \\\n /home/zorro/x", "a \\\n /Users/zorro/x"),
        ("a\n/home/zorro/x\n", "a\n/Users/zorro/x\n"),
        ("cmd /home/zorro/ö/名", "cmd /Users/zorro/ö/名"),
        // The closest home wins.
        ("cmd /home/zorro/deep/home/x /home/zorro/deep/x", "cmd /Users/zorro/x /Users/zorro/deep/x"),
        ("cmd /home/zorro/a/../b", "cmd /Users/zorro/a/../b"),
        // Unbalanced quotes run to the end.
        ("cmd '/home/zorro/x", "cmd '/Users/zorro/x"),
        ("cmd \"/home/zorro/x", "cmd \"/Users/zorro/x"),
        ("cmd /home/zorro/x\\", "cmd /Users/zorro/x\\"),
    ] {
        assert_eq!(to_mac().in_command(command), expected, "{command}");
    }
}

#[test]
fn what_is_no_path_below_a_home_is_left_alone() {
    for command in [
        "",
        "python x.py",
        "python /Users/zorro/x.py",
        "cmd /home/zorro2/x /home/zorro.bak /home/zorro-x /home/zorro_x /home/zorroé",
        "cmd /home/zorr /home /",
        "cmd /data/home/zorro/x ./home/zorro/x ../home/zorro/x x/home/zorro/y",
        "cmd ~/x ~zorro/x ~/home/zorro/x",
        "cmd $HOME/x ${DIR}/home/zorro/x $DIR/home/zorro/x",
        "cmd /home/zorro$X /home/zorro* /home/zorro?",
        "cmd //home/zorro/x /home//zorro/x",
        "cmd s3://bucket/home/zorro/x s3:///home/zorro/x",
        "cmd http://host/home/zorro 'https://host/?dir=/home/zorro/x&b=/home/zorro/y'",
        "cmd file:///home/zorro/x --url=http://h/?p=/home/zorro",
        "cmd HTTP://h:80/home/zorro/x git+ssh://git@h:/home/zorro/x",
        "cmd '/home/zorro x/y' \"/home/zorro x/y\" /home/zorro\\ x/y",
        "cmd /home/'zorro'/x",
        "cmd # /home/zorro/x isn't\n",
        "cmd /home/zorro/../other /home/zorro/a/../../b",
        "-I/home/zorro/include",
    ] {
        assert_eq!(to_mac().in_command(command), command);
    }
}

#[test]
fn a_path_after_a_url_is_a_path_again() {
    let command = "cmd s3://b/home/zorro /home/zorro/x --a=s3://b,/home/zorro/y; cat /home/zorro/z";
    let expected = "cmd s3://b/home/zorro /Users/zorro/x --a=s3://b,/Users/zorro/y; cat /Users/zorro/z";
    assert_eq!(to_mac().in_command(command), expected);
    assert_eq!(to_mac().in_text("/a://home/zorro:/home/zorro/x"), "/a://home/zorro:/Users/zorro/x");
}

#[test]
fn values_are_translated_without_a_shell() {
    for (value, expected) in [
        ("/home/zorro", "/Users/zorro"),
        ("/home/zorro/", "/Users/zorro/"),
        ("/home/zorro/a:/x:/home/zorro/b:${PYTHONPATH}", "/Users/zorro/a:/x:/Users/zorro/b:${PYTHONPATH}"),
        ("--dir /home/zorro --x", "--dir /Users/zorro --x"),
        ("it's /home/zorro/x", "it's /Users/zorro/x"),
        ("# /home/zorro/x", "# /Users/zorro/x"),
        ("/home/zorro/a\\ b", "/Users/zorro/a\\ b"),
        ("/home/zorro x/y", "/home/zorro x/y"),
        ("http://h/home/zorro", "http://h/home/zorro"),
        ("${PYTHONPATH}", "${PYTHONPATH}"),
    ] {
        assert_eq!(to_mac().in_text(value), expected, "{value}");
    }
}

#[test]
fn fields_that_name_files_on_the_cluster_are_translated() {
    let job = json!({
        "working_dir": "/home/zorro/project", "py_executable": "/home/zorro/venv/bin/python -u",
        "py_modules": ["/home/zorro/lib", "s3://b/home/zorro/x.zip"], "conda": "/home/zorro/conda/envs/ts",
        "config": {"note": "/home/zorro"},
    });
    let resolved = runtime_env_on(&mac(), job);
    assert_eq!(resolved["working_dir"], "/Users/zorro/project");
    assert_eq!(resolved["py_executable"], "/Users/zorro/venv/bin/python -u");
    assert_eq!(resolved["py_modules"], json!(["/Users/zorro/lib", "s3://b/home/zorro/x.zip"]));
    assert_eq!(resolved["conda"], "/Users/zorro/conda/envs/ts");
    assert_eq!(resolved["config"], json!({"note": "/home/zorro"}));
}

#[test]
fn a_clusters_own_values_are_its_own_business() {
    let mut centos = centos();
    let mut base = (*centos.runtime_env).clone();
    base.insert("env_vars".to_owned(), json!({"home_dir": "/home/zorro", "SHARED": "/Users/zorro/nfs"}));
    centos.runtime_env = std::sync::Arc::new(base);
    assert_eq!(runtime_env_on(&centos, json!({}))["env_vars"]["SHARED"], "/Users/zorro/nfs");
}

#[test]
fn what_cannot_be_a_home_is_ignored() {
    let long = format!("/{}", "x".repeat(300));
    for odd in ["", "/", "//", "zorro", "~", "/home/../etc", "/a:b", "/a=b", "/a\nb", "/home//zorro", &long] {
        let homes = Homes::new(Some("/Users/zorro"), [odd].into_iter());
        let command = format!("cmd {odd}/x / /x");
        assert_eq!(homes.in_command(&command), command);
        let homes = Homes::new(Some(odd), KNOWN.into_iter());
        assert_eq!(homes.in_command("cmd /home/zorro/x"), "cmd /home/zorro/x", "{odd}");
    }
}

/// A real shell reads the same words, translated.
#[test]
fn a_shell_agrees() {
    for here in ["/Users/zorro", "/Users/John Doe", "/Users/O'Neil", "/Users/a$b\"c\\d`e*"] {
        let homes = Homes::new(Some(here), KNOWN.into_iter());
        for words in [
            "/home/zorro/x",
            "--out=/home/zorro/x",
            "'/home/zorro/a b' c",
            "\"/home/zorro/a b\" '/home/zorro'",
            "a\"/home/zorro/x\"'/home/zorro/y'",
            "/home/zorro\"/a b\"'/c d'",
            "/home/zorro/a\\ b\\'c",
            "'it'\\''s' \"/home/zorro/\\\"q\\\"\"",
            "X=/home/zorro/a:/home/zorro/b",
        ] {
            let words_of = |text: &str| {
                let script = format!("set -f; printf '<%s>' {text}");
                let output = Command::new("sh").args(["-c", &script]).output().unwrap();
                assert!(output.status.success(), "{script}: {output:?}");
                String::from_utf8(output.stdout).unwrap()
            };
            let expected = words_of(words);
            let got = words_of(&homes.in_command(words));
            // `a/home/zorro/x` is one word that does not begin with a home.
            let expected = match words.starts_with('a') {
                true => expected,
                false => expected.replace("/home/zorro", here),
            };
            assert_eq!(got, expected, "{words} for {here}");
        }
    }
}

#[test]
fn hostile_commands_take_no_time() {
    let started = Instant::now();
    let a_home = format!("{}b", "/a ".repeat(80));
    for piece in [
        "/home/zorro",
        "/home/zorro/=",
        "/home/zorro/",
        "/home/zorr ",
        "'",
        "\"",
        "\\",
        "a://",
        "://",
        ":/",
        "/a ",
        "=/home/zorro/..",
        "$'",
        "#",
        "\n#",
        "@/home/zorro/x",
    ] {
        let text = piece.repeat((1 << 20) / piece.len());
        let homes = Homes::new(Some("/Users/zorro"), KNOWN.into_iter().chain([a_home.as_str()]));
        let once = homes.in_command(&text);
        assert_eq!(homes.in_command(&once), once, "{piece}");
        let _ = homes.in_text(&text);
    }
    // 48 MiB in total; a quadratic step would take hours.
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
}

/// Texts in which paths, quotes and near-paths meet often.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => prop::sample::select(KNOWN.to_vec()).prop_map(str::to_owned),
        2 => prop::sample::select(vec!["/..", "s3://", "/x", "//", "~/", "${X}", "\\\n", "$'", "/Users", "/home"]).prop_map(str::to_owned),
        4 => "[a2 /=:,'\"\\\\#;é(\n@]",
    ];
    prop::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

fn here() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "/Users/zorro",
        "/home/zorro",
        "/home",
        "/Users/O'Neil",
        "/a b",
        "/a /home/zorro",
        "/x$y",
        "/home/zorro/deep",
    ])
}

/// The number of words and the quotes: both must not change.
fn shape(text: &str) -> (usize, Vec<char>) {
    let cells = shell::command(text);
    let is_gap = |cell: &shell::Cell| cell.quote == shell::Quote::None && cell.char.is_whitespace();
    let words = cells.iter().filter(|cell| is_gap(cell)).count();
    // A needless backslash within a home may disappear with it.
    let quotes = text.chars().filter(|c| matches!(c, '\'' | '"' | '#' | '\n')).collect();
    (words, quotes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn translating_twice_is_translating_once(text in text(), here in here()) {
        let homes = Homes::new(Some(here), KNOWN.into_iter().chain(["/Users", "/a"]));
        let once = homes.in_command(&text);
        prop_assert_eq!(homes.in_command(&once), once);
        let once = homes.in_text(&text);
        prop_assert_eq!(homes.in_text(&once), once);
    }

    #[test]
    fn words_and_quotes_stay(text in text()) {
        prop_assert_eq!(shape(&to_mac().in_command(&text)), shape(&text));
    }

    #[test]
    fn any_text_is_fine(text in ".{0,80}", here in "/.{0,20}", home in "/?.{0,10}") {
        let homes = Homes::new(Some(&here), [home.as_str()].into_iter());
        let _ = (homes.in_command(&text), homes.in_text(&text));
    }

    #[test]
    fn text_without_a_home_in_it_stays(text in "[a-z/ '\"=:.~$]{0,60}") {
        prop_assume!(!text.contains("/home") && !text.contains("/Users"));
        prop_assert_eq!(to_mac().in_command(&text), text);
    }
}
