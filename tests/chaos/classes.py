"""Promises that no storm can show, and the tests that show them one by one.

    python -m chaos.classes docs/reliability.md

runs them and writes the table between the markers of the page. It fails if a test fails, or if
there is none of that name.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from support.plane import REPOSITORY

from .report import write

# A crate with the beginning of a test's name, or a file of tests.
CORE, SERVER = "multicluster-core", "multicluster-server"
CLASSES: list[tuple[str, list[tuple[str, str]]]] = [
    (
        "A task or an actor is not started twice: a call that was sent is not sent elsewhere",
        [
            ("sdk/test_sent_once.py", "test_an_actor_is_not_created_twice"),
            ("sdk/test_sent_once.py", "test_of_a_batch_a_sent_call_is_not_sent_again"),
            ("sdk/test_retry.py", "test_a_batch_that_was_partly_sent_says_so_whatever_ends_it"),
        ],
    ),
    (
        "A run that is not wanted any more is stopped, however often its cluster changes",
        [(CORE, "a_stop_of_an_orphan_is_sent_again_when_its_cluster_is_reached_in_another_way")],
    ),
    (
        "A large job does not close a cluster for room that only others could free",
        [(CORE, "a_cluster_is_not_kept_free_for_room_that_only_work_of_others_could_free")],
    ),
    (
        "Requests to a cluster that hangs do not pile up (an hour, 1,000 jobs being stopped)",
        [(SERVER, "errands_to_a_cluster_that_hangs_do_not_pile_up_and_all_are_done_in_the_end")],
    ),
    (
        "Other users of the machine get nothing from the control plane that the SDK starts",
        [
            ("sdk/test_attach_local.py", "test_other_users_of_the_machine_get_nothing"),
            (
                "sdk/test_packages.py",
                "test_a_control_plane_cannot_choose_what_leaves_this_machine",
            ),
        ],
    ),
    (
        "Stored bytes are bounded, for each owner and in total",
        [(CORE, "what_is_stored_for_jobs_that_have_not_ended_is_bounded_by_owner_and_in_total")],
    ),
    (
        "New work leaves a reserve of disk: accepted work goes on, and a restart works",
        [(SERVER, "before_the_disk_is_full_new_work_is_refused_and_accepted_work_goes_on")],
    ),
    (
        "A flood of submissions on a slow disk hides nothing from those who look",
        [(SERVER, "a_flood_of_submits_on_a_slow_disk_keeps_nobody_from_looking")],
    ),
    (
        "One owner's ended work pushes out nobody else's",
        [(CORE, "one_owners_ended_work_does_not_push_out_the_jobs_of_others")],
    ),
    (
        "A token does not pass others by a priority above its own",
        [(SERVER, "a_token_cannot_pass_others_by_a_priority_above_its_own")],
    ),
    (
        "A program that forks does not hang",
        [
            (
                "sdk/test_forks.py",
                "test_a_child_leaves_its_parents_tasks_actors_and_refs_alone",
            ),
            ("sdk/test_forks.py", "test_a_spawned_child_uses_clusters_of_its_own"),
        ],
    ),
    (
        "Events of an earlier job of the same id hide no later ones",
        [
            (
                SERVER,
                "the_events_of_an_earlier_job_of_the_same_id_do_not_hide_those_of_the_present_one",
            )
        ],
    ),
    (
        "A lost head excuses only the jobs that were there, in the checks of the table above",
        [("history/test_check.py", "test_a_lost_head_excuses_no_job_that_was_not_there")],
    ),
]


def run() -> dict[str, bool]:
    """Of every test that ran, by its name, whether it passed."""
    tests = [test for _, tests in CLASSES for test in tests]
    results: dict[str, bool] = {}
    for crate in sorted({where for where, _ in tests if not where.endswith(".py")}):
        names = [name for where, name in tests if where == crate]
        text = _output("cargo", "test", "-p", crate, "--lib", "--tests", "--", *names)
        for path, how in re.findall(r"^test (\S+) \.\.\. (\w+)", text, re.MULTILINE):
            results[path.rpartition("::")[2]] = how == "ok"
    nodes = [f"tests/{where}::{name}" for where, name in tests if where.endswith(".py")]
    text = _output(sys.executable, "-m", "pytest", "-rA", *nodes)
    for how, name in re.findall(r"^(PASSED|FAILED|ERROR) \S+::(\w+)", text, re.MULTILINE):
        results[name] = results.get(name, True) and how == "PASSED"
    return results


def table(results: dict[str, bool]) -> str:
    words = {True: "passed", False: "**failed**", None: "**missing**"}
    lines = ["| promise | shown by | in this run |", "| --- | --- | --- |"]
    for promise, tests in CLASSES:
        names = "<br>".join(f"`{name}`" for _, name in tests)
        ends = "<br>".join(words[results.get(name)] for _, name in tests)
        lines.append(f"| {promise} | {names} | {ends} |")
    return "\n".join(lines)


def _output(*command: str) -> str:
    done = subprocess.run(
        command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode != 0:
        print(done.stdout[-20_000:])
    return done.stdout


if __name__ == "__main__":
    told = table(run())
    print(told)
    write(told, Path(sys.argv[1]), "classes")
    sys.exit("**" in told)
