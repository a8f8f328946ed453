//! The course of a job: read from its entrypoint, or decided by a rule.

use std::time::Duration;

use crate::options::FakeOptions;

/// A job's life.
///
/// Without a rule it is read from the entrypoint, commands separated by `;` or `&&`:
///
/// | command | effect |
/// | --- | --- |
/// | `sleep 0.5` | runs half a second |
/// | `echo text` | writes a line |
/// | `lines 25` | writes `line 1` to `line 25` |
/// | `exit 3`, `true`, `false` | ends, with that exit code; `exit -9` as if killed |
/// | `forever` | runs until stopped or [finished](crate::FakeRay::finish) |
/// | `never-start` | PENDING for good |
/// | `python …` with `ray.kill` | [ends](crate::FakeRay::kill_supervisor) the PENDING jobs that are its arguments, when it ends |
/// | `python …` | runs for the options' `runs_for`, and has a driver id, as a script that calls `ray.init()` |
/// | else | runs for the options' `runs_for` |
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// From submit to RUNNING, if there is room. `None`: never.
    pub pending_for: Option<Duration>,
    /// From RUNNING to the end. `None`: until stopped or finished.
    pub runs_for: Option<Duration>,
    /// 0 is SUCCEEDED, else FAILED.
    pub exit_code: i32,
    /// The output to the log, and when after the start.
    pub output: Vec<(Duration, String)>,
    /// Whether the entrypoint connects to Ray and so gets a driver job id.
    pub driver: bool,
    /// The jobs whose supervisors it ends if it succeeds, unless they have started.
    pub recalls: Vec<String>,
}

impl Plan {
    /// Starts after the first duration, succeeds after the second.
    pub fn new(pending_for: Duration, runs_for: Duration) -> Self {
        Self {
            pending_for: Some(pending_for),
            runs_for: Some(runs_for),
            exit_code: 0,
            output: Vec::new(),
            driver: false,
            recalls: Vec::new(),
        }
    }

    /// PENDING for good.
    #[must_use]
    pub fn never_start(mut self) -> Self {
        self.pending_for = None;
        self
    }

    /// RUNNING until stopped or finished.
    #[must_use]
    pub fn forever(mut self) -> Self {
        self.runs_for = None;
        self
    }

    /// Ends with this exit code.
    #[must_use]
    pub fn exit_code(mut self, code: i32) -> Self {
        self.exit_code = code;
        self
    }

    /// Writes this text at the start.
    #[must_use]
    pub fn output(mut self, text: impl Into<String>) -> Self {
        self.output.push((Duration::ZERO, text.into()));
        self
    }

    /// Reads a plan from an entrypoint.
    pub fn of_entrypoint(entrypoint: &str, options: &FakeOptions) -> Self {
        let mut plan = Self::new(options.pending_for, Duration::ZERO);
        if let Some(recalls) = recalled(entrypoint) {
            return Self { runs_for: Some(options.runs_for), driver: true, recalls, ..plan };
        }
        let mut elapsed = Duration::ZERO;
        for command in entrypoint.split("&&").flat_map(|part| part.split(';')) {
            let (verb, rest) = command.trim().split_once(' ').unwrap_or((command.trim(), ""));
            match verb {
                "" => {}
                "sleep" => elapsed += seconds(rest),
                "echo" => plan.output.push((elapsed, format!("{}\n", rest.trim_matches(['"', '\''])))),
                "lines" => {
                    let count: usize = rest.trim().parse().unwrap_or(1);
                    let text = (1..=count).map(|n| format!("line {n}\n")).collect();
                    plan.output.push((elapsed, text));
                }
                "exit" | "true" | "false" => {
                    plan.exit_code = if verb == "false" { 1 } else { rest.trim().parse().unwrap_or(0) };
                    // A shell goes on after `true` and `;`, but test authors mean the end here.
                    if verb == "exit" || plan.exit_code != 0 {
                        break;
                    }
                }
                "forever" => {
                    return Self { runs_for: None, ..plan };
                }
                "never-start" => return plan.never_start(),
                _ => {
                    plan.driver |= verb.rsplit('/').next().is_some_and(|name| name.starts_with("python"));
                    elapsed += options.runs_for;
                }
            }
        }
        plan.runs_for = Some(elapsed);
        plan
    }
}

/// The arguments of a script that ends supervisors.
fn recalled(entrypoint: &str) -> Option<Vec<String>> {
    let is_recaller = entrypoint.contains("_ray_internal_job_actor_") && entrypoint.contains("ray.kill(");
    let (_, arguments) = entrypoint.rsplit_once('\'').filter(|_| is_recaller)?;
    Some(arguments.split_whitespace().map(str::to_owned).collect())
}

fn seconds(text: &str) -> Duration {
    text.trim().parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(entrypoint: &str) -> Plan {
        Plan::of_entrypoint(entrypoint, &FakeOptions::default())
    }

    #[test]
    fn an_entrypoint_says_how_long_and_how_it_ends() {
        let read = plan("echo hi; sleep 2 && echo 'bye' && exit 3 && echo never");
        assert_eq!(read.runs_for, Some(Duration::from_secs(2)));
        assert_eq!(read.exit_code, 3);
        let expected = [(Duration::ZERO, "hi\n".to_owned()), (Duration::from_secs(2), "bye\n".to_owned())];
        assert_eq!(read.output, expected);
    }

    #[test]
    fn a_script_that_ends_supervisors_names_their_jobs() {
        let script = "python -c 'ray.kill(ray.get_actor(\"_ray_internal_job_actor_\" + sys.argv[1]))' a b.1";
        assert_eq!(plan(script).recalls, ["a", "b.1"]);
        assert!(plan("python train.py 'ray.kill(x)' a").recalls.is_empty());
    }

    #[test]
    fn some_words_never_start_or_never_end() {
        assert_eq!(plan("never-start").pending_for, None);
        assert_eq!(plan("forever").runs_for, None);
        assert_eq!(plan("false").exit_code, 1);
        assert!(plan("/usr/bin/python3 train.py").driver);
        assert_eq!(plan("./run.sh").runs_for, Some(FakeOptions::default().runs_for));
    }
}
