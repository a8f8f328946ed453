use super::of;

/// Ray's words around an entrypoint's log, with its own lines at the beginning of each log.
fn ray(code: i32, log: &str) -> String {
    format!(
        "Job entrypoint command failed with exit code {code}, last available logs (truncated to 20,000 chars):\n\
         2026-11-18 04:12:09,101\tINFO job_manager.py:581 -- Runtime env is setting up.\n\
         Running entrypoint for job train-7: python train.py\n{log}"
    )
}

#[test]
fn of_a_traceback_it_is_the_error() {
    let log = "epoch 1\nTraceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n    \
               raise ValueError(\"no such fund\")\nValueError: no such fund\n";
    assert_eq!(of(&ray(1, log)), "ValueError: no such fund");
}

#[test]
fn an_error_with_several_lines_is_its_first_one() {
    let log = "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    Settings()\n\
               pydantic_core.ValidationError: 1 validation error for Settings\nfund\n  Field required \
               [type=missing]\n    For further information visit https://errors.pydantic.dev/2.5/v/missing\n";
    assert_eq!(of(&ray(1, log)), "pydantic_core.ValidationError: 1 validation error for Settings");
}

#[test]
fn of_an_error_in_a_task_it_is_the_error_of_the_task_without_colours() {
    let log = "Traceback (most recent call last):\n  File \"a.py\", line 9, in <module>\n    ray.get(f.remote())\n\
               ray.exceptions.RayTaskError(ValueError): \x1b[36mray::f()\x1b[39m (pid=7, ip=127.0.0.1)\n  \
               File \"a.py\", line 3, in f\n    raise ValueError(\"no such fund\")\n\
               \x1b[31mValueError: no such fund\x1b[0m\n\
               \x1b[36m(f pid=7)\x1b[0m reading prices\n(raylet) Spilled 12 MiB\n";
    assert_eq!(of(&ray(1, log)), "ValueError: no such fund");
}

#[test]
fn a_program_that_caught_an_error_and_gave_up_later_says_so_itself() {
    let log = "Traceback (most recent call last):\n  File \"a.py\", line 9, in load\n    open(path)\n\
               FileNotFoundError: prices.csv\nno prices for 2026-11-18: giving up\n";
    assert_eq!(of(&ray(3, log)), "no prices for 2026-11-18: giving up");
}

#[test]
fn of_a_bare_exit_it_is_the_last_line_before_it() {
    assert_eq!(of(&ray(3, "oh\n\n")), "oh");
    let log = "oh\n2026-11-18 04:12:10,001\tINFO worker.py:1879 -- Connecting to existing Ray cluster\n";
    assert_eq!(of(&ray(3, log)), "oh");
}

#[test]
fn without_output_it_is_the_exit_code() {
    assert_eq!(of(&ray(3, "")), "exit code 3, without output");
    assert_eq!(
        of("Job entrypoint command failed with exit code 3. No logs available."),
        "exit code 3, without output"
    );
    let banner =
        "Job entrypoint command failed with exit code 3, last available logs (truncated to 20,000 chars):\n";
    assert_eq!(of(banner), "exit code 3, without output");
}

#[test]
fn what_a_worker_printed_is_better_than_nothing() {
    assert_eq!(of(&ray(1, "(f pid=7) out of memory\n")), "(f pid=7) out of memory");
}

#[test]
fn a_signal_is_named() {
    assert_eq!(of(&ray(-9, "epoch 3\n")), "killed by signal 9; last line: epoch 3");
    assert_eq!(of(&ray(-11, "")), "killed by signal 11, without output");
}

#[test]
fn of_pip_it_is_the_error() {
    let head = "runtime_env setup failed: Failed to set up runtime environment.\nTraceback (most recent call \
                last):\n  File \"/ray/pip.py\", line 300, in _run\n    await self._install()\n\
                ray._private.runtime_env.utils.SubprocessCalledProcessError: Run cmd[7] failed with the following \
                details.\nCommand '['pip', 'install']' returned non-zero exit status 1.\nLast 50 lines of stdout:\n";
    let missing = "    ERROR: Could not find a version that satisfies the requirement nope (from versions: none)\n    \
                   ERROR: No matching distribution found for nope\n    \n    [notice] A new release of pip is \
                   available: 25.0 -> 25.3\n    [notice] To update, run: pip install --upgrade pip\n\n.";
    assert_eq!(of(&format!("{head}{missing}")), "ERROR: No matching distribution found for nope");
    let built = "    error: subprocess-exited-with-error\n    \n    × python setup.py egg_info did not run \
                 successfully.\n    │ exit code: 1\n    ╰─> [1 lines of output]\n        ERROR: Can not execute \
                 `setup.py`\n        [end of output]\n    \n    note: This error originates from a subprocess, and \
                 is likely not a problem with pip.\n    error: metadata-generation-failed\n    \n    × Encountered \
                 error while generating package metadata.\n    ╰─> See above for output.\n    \n    note: This is an \
                 issue with the package mentioned above, not pip.\n    hint: See above for details.\n\n.";
    assert_eq!(of(&format!("{head}{built}")), "ERROR: Can not execute `setup.py`");
    let uv = "      × No solution found when resolving dependencies:\n      ╰─▶ Because nope was not found in the \
              package registry, your requirements are unsatisfiable.\n\n.";
    assert_eq!(
        of(&format!("{head}{uv}")),
        "Because nope was not found in the package registry, your requirements are unsatisfiable."
    );
}

#[test]
fn what_the_control_plane_adds_below_is_the_headline() {
    let text = format!("{}\nnot retried: exit code 3 is excluded; last error: oh", ray(3, "oh"));
    assert_eq!(of(&text), "not retried: exit code 3 is excluded; last error: oh");
}

#[test]
fn any_text_has_a_line() {
    for text in ["", " \n ", "\x1b", "\x1b[", "Job entrypoint command failed with exit code ", "…\n——"]
    {
        let _ = of(text);
    }
    assert_eq!(of("a\x1b[31;1mb\x1b[0mc"), "abc");
}
