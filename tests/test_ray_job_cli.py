"""The stock `ray job` command line: each test passes against Ray itself and against the plane.

A call of `ray` itself takes some seconds, so each test checks several things.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.door import Door
from support.jobs import own_metadata, unique_id, wait_for


def test_submit_follows_the_job_and_shows_its_output(door: Door) -> None:
    output = door.cli.job("submit", "--", "echo", "out of the job").ok()
    assert "out of the job" in output
    assert "succeeded" in output


def test_submit_of_a_job_that_fails_exits_non_zero(door: Door) -> None:
    ran = door.cli.job("submit", "--", "sh", "-c", "echo before the end; exit 7")
    assert ran.code != 0
    assert "before the end" in ran.output
    assert "failed" in ran.output


def test_submit_uploads_and_passes_on_everything(door: Door, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("import os; print('level', os.environ['LEVEL'], 'seen')\n")
    job_id = unique_id("cli")
    output = door.cli.job(
        "submit",
        "--submission-id",
        job_id,
        "--working-dir",
        str(tmp_path),
        "--runtime-env-json",
        json.dumps({"env_vars": {"LEVEL": "t-42"}}),
        "--metadata-json",
        json.dumps({"team": "quant"}),
        "--entrypoint-num-cpus",
        "1",
        "--entrypoint-resources",
        json.dumps({"linux_only": 1}),
        "--",
        "python",
        "main.py",
    ).ok()
    assert "level t-42 seen" in output
    info = door.client.get_job_info(job_id)
    assert own_metadata(info) == {"team": "quant"}
    assert info.runtime_env["env_vars"]["LEVEL"] == "t-42"
    assert info.runtime_env["working_dir"].startswith("gcs://_ray_pkg_")


def test_no_wait_then_status_list_logs_stop_delete(door: Door) -> None:
    job_id = unique_id("nowait")
    output = door.cli.job(
        "submit",
        "--no-wait",
        "--submission-id",
        job_id,
        "--",
        "sh",
        "-c",
        "echo started; sleep 300",
    ).ok()
    assert job_id in output
    assert "succeeded" not in output
    wait_for(door.client, job_id, "RUNNING")

    status = door.cli.job("status", job_id).ok()
    assert "RUNNING" in status.upper()
    listed = door.cli.job("list").ok()
    assert job_id in listed
    assert "started" in door.cli.job("logs", job_id).ok()

    not_yet = door.cli.job("delete", job_id)
    assert not_yet.code != 0
    assert "non-terminal state RUNNING" in not_yet.output

    assert "was stopped" in door.cli.job("stop", job_id).ok()
    # By now, more than a second has passed, within which Ray would bring it back.
    assert "deleted" in door.cli.job("delete", job_id).ok()


def test_logs_follow_until_the_end(door: Door) -> None:
    job_id = door.client.submit_job(entrypoint="for n in 1 2 3; do echo row $n; sleep 1; done")
    output = door.cli.job("logs", "--follow", job_id).ok()
    rows = [line for line in output.splitlines() if line.startswith("row ")]
    assert rows == ["row 1", "row 2", "row 3"]


def test_a_taken_id_is_refused_in_rays_words(door: Door) -> None:
    job_id = door.client.submit_job(entrypoint="true", submission_id=unique_id("taken"))
    ran = door.cli.job("submit", "--no-wait", "--submission-id", job_id, "--", "echo", "other")
    assert ran.code != 0
    assert f"{job_id} already exists" in ran.output


@pytest.mark.parametrize("verb", ["status", "logs", "stop", "delete"])
def test_an_unknown_id_is_an_error(door: Door, verb: str) -> None:
    ran = door.cli.job(verb, "no-such-job")
    assert ran.code != 0
    assert "no-such-job does not exist" in ran.output
