//! Running the command that prints a token.

use std::{
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::{Duration, SystemTime},
};

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};
use multicluster_types::REDACTED;
use serde::Deserialize;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::Command,
    time::timeout,
};

use crate::answer::printable;

/// For everything: the start, the output, the end.
const TIME: Duration = Duration::from_secs(10);
/// No token is longer.
const LARGEST: usize = 64 << 10;
/// How much of the last line of an error is repeated.
const LINE: usize = 300;

/// The output of a command, which is run without a shell.
///
/// # Errors
/// What went wrong, without the arguments and the output: both may be secrets.
pub(crate) async fn run(words: &[Arc<str>]) -> Result<String, String> {
    run_within(words, TIME).await
}

async fn run_within(words: &[Arc<str>], time: Duration) -> Result<String, String> {
    let Some((program, arguments)) = words.split_first() else {
        return Err("there is no program to run".to_owned());
    };
    let mut command = Command::new(&**program);
    command.args(arguments.iter().map(|word| &**word));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // If it takes too long, the whole of it ends: a plug-in that it started, too.
    command.kill_on_drop(true).process_group(0);
    let mut child = command.spawn().map_err(|error| format!("it cannot be started: {error}"))?;
    let (Some(mut out), Some(mut errors)) = (child.stdout.take(), child.stderr.take()) else {
        return Err("its output cannot be read".to_owned());
    };
    let group = child.id();
    let ended = timeout(time, async {
        let (out, errors) = tokio::join!(start_of(&mut out), end_of(&mut errors));
        (child.wait().await, out, errors)
    });
    let Ok((status, out, errors)) = ended.await else {
        end_group(group);
        return Err(format!("it did not end within {time:?}"));
    };
    let status = status.map_err(|error| format!("its end was missed: {error}"))?;
    let out = String::from_utf8_lossy(&out).into_owned();
    if status.success() {
        return if out.len() < LARGEST { Ok(out) } else { Err("it printed too much".to_owned()) };
    }
    Err(format!("{}{}", said(status), last_line(&errors, &out)))
}

fn said(status: ExitStatus) -> String {
    status.code().map_or_else(|| "it was killed".to_owned(), |code| format!("exit code {code}"))
}

/// The last line that says something. It never repeats what the command printed as its token.
fn last_line(errors: &[u8], out: &str) -> String {
    let text = String::from_utf8_lossy(errors);
    let Some(line) = text.lines().map(str::trim).rfind(|line| !line.is_empty()) else {
        return String::new();
    };
    let mut line = printable(line);
    for secret in out.split_whitespace().filter(|word| word.len() >= 6) {
        line = line.replace(secret, REDACTED);
    }
    let cut: String = line.chars().take(LINE).collect();
    format!(": {cut}")
}

/// The first bytes; the rest is read and dropped, so that the command does not wait forever.
async fn start_of(from: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(n @ 1..) = from.read(&mut piece).await {
        let room = LARGEST - kept.len();
        kept.extend_from_slice(&piece[..n.min(room)]);
    }
    kept
}

/// The last bytes.
async fn end_of(from: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(n @ 1..) = from.read(&mut piece).await {
        kept.extend_from_slice(&piece[..n]);
        let over = kept.len().saturating_sub(2 * piece.len());
        kept.drain(..over);
    }
    kept
}

fn end_group(leader: Option<u32>) {
    let pid = leader.and_then(|leader| i32::try_from(leader).ok()).and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid {
        // It may have ended by itself.
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
    }
}

/// When a JWT ends. It is not verified: its cluster does that.
pub(crate) fn expires(token: &str) -> Option<SystemTime> {
    #[derive(Deserialize)]
    struct Claims {
        exp: f64,
    }
    let mut parts = token.split('.');
    let (_, claims, _, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else {
        return None;
    };
    let claims: Claims = serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
    // Up to the year 5138: beyond that it is not a time.
    let plausible = (0.0..1e11).contains(&claims.exp);
    plausible.then(|| SystemTime::UNIX_EPOCH + Duration::from_secs_f64(claims.exp))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A token with these claims.
    pub(crate) fn jwt(claims: &str) -> String {
        format!("e30.{}.sig", BASE64_URL_SAFE_NO_PAD.encode(claims))
    }

    fn shell(script: &str) -> Vec<Arc<str>> {
        ["/bin/sh", "-c", script].map(Arc::from).to_vec()
    }

    #[tokio::test]
    async fn its_output_is_the_token() {
        let words = ["/bin/echo", "t0ken; $(id)"].map(Arc::from);
        assert_eq!(run(&words).await.unwrap(), "t0ken; $(id)\n", "no shell takes it apart");
    }

    #[tokio::test]
    async fn a_failure_is_told_without_arguments_and_output() {
        for (script, told) in [
            ("echo first >&2; echo 'You must log in' >&2; exit 3 # hunter2", "exit code 3: You must log in"),
            ("echo t0ken-t0ken; echo '+ echo t0ken-t0ken' >&2; exit 1", "exit code 1: + echo <redacted>"),
            ("exit 1", "exit code 1"),
            ("kill -9 $$", "it was killed"),
            ("head -c 100000 /dev/zero", "it printed too much"),
            ("head -c 1000000 /dev/zero | tr '\\0' x >&2; echo; echo end >&2; exit 1", "exit code 1: "),
        ] {
            let failure = run(&shell(script)).await.unwrap_err();
            assert!(failure.starts_with(told) && failure.len() < 400, "{script}: {failure}");
        }
        let missing = run(&["/nowhere/kubectl".into(), "hunter2".into()]).await.unwrap_err();
        assert_eq!(missing, "it cannot be started: No such file or directory (os error 2)");
    }

    #[tokio::test]
    async fn one_that_hangs_is_ended_with_all_that_it_started() {
        let file = std::env::temp_dir().join(format!("multicluster-hangs-{}", std::process::id()));
        let script = format!("sleep 300 & echo $! > {}; wait", file.display());
        let failure = run_within(&shell(&script), Duration::from_secs(1)).await.unwrap_err();
        assert_eq!(failure, "it did not end within 1s");
        let pid: i32 = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
        std::fs::remove_file(file).unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        // Its new parent may take a moment to reap it.
        for _ in 0..100 {
            if rustix::process::test_kill_process(pid).is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("its child still runs");
    }

    #[test]
    fn the_end_of_a_jwt_is_read() {
        let at = |seconds| Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(expires(&jwt(r#"{"sub":"ray","exp":1794935177}"#)), at(1_794_935_177));
        assert_eq!(expires(&jwt(r#"{"exp":12.0}"#)), at(12));
        for none in
            ["opaque", "a.b", "a.b.c", "a.!.c", &jwt("{}"), &jwt(r#"{"exp":-1}"#), &jwt(r#"{"exp":1e99}"#)]
        {
            assert_eq!(expires(none), None, "{none}");
        }
    }
}
