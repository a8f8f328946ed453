//! `completions`, in the shells that are installed.

use std::{fs, path::PathBuf, process::Command};

use crate::world::Done;

/// The line as typed so far, and a word that the shell then offers.
const TYPED: &[(&str, &str)] = &[
    ("ray-multicluster jo", "jobs"),
    ("ray-multicluster jobs --so", "--sort"),
    ("ray-multicluster jobs --sort s", "submitted"),
    ("ray-multicluster clusters cor", "cordon"),
    ("ray-multicluster clusters drain --w", "--wait"),
    ("ray-multicluster what-if --nee", "--needs"),
    ("ray-multicluster -o json jobs --ta", "--tag"),
];

/// Its standard output; `None`: this shell is not installed.
fn run(shell: &str, arguments: &[&str], code: &str) -> Option<String> {
    Command::new(shell).arg("--version").output().ok()?;
    let script = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("completions-{}.{shell}", std::process::id()));
    let printed = Done::of(Command::new(env!("CARGO_BIN_EXE_ray-multicluster")).args(["completions", shell]));
    assert_eq!(printed.code, Some(0), "{}", printed.err);
    fs::write(&script, printed.out).unwrap();
    let mut command = Command::new(shell);
    let done = Done::of(command.args(arguments).arg("-c").arg(code).env("SCRIPT", &script));
    fs::remove_file(&script).unwrap();
    assert_eq!(done.code, Some(0), "{}", done.err);
    Some(done.out)
}

#[test]
fn bash_completes_after_the_first_word() {
    for (typed, offered) in TYPED {
        // As bash calls the function when Tab is pressed.
        let code = format!(
            "source \"$SCRIPT\"
             COMP_WORDS=({typed}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
             function=$(complete -p ray-multicluster | sed 's/.*-F \\([^ ]*\\).*/\\1/')
             $function ray-multicluster \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\"
             printf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        let Some(out) = run("bash", &["--norc"], &code) else { return };
        assert!(out.lines().any(|word| word == *offered), "{typed}: {out}");
    }
}

#[test]
fn fish_completes_after_the_first_word() {
    for (typed, offered) in TYPED {
        let code = format!("source $SCRIPT; complete -C '{typed}'");
        let Some(out) = run("fish", &["--no-config"], &code) else { return };
        assert!(out.lines().any(|line| line.split('\t').next() == Some(*offered)), "{typed}: {out}");
    }
}
