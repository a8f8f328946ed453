"""Errors name the work and the cluster, and say what to do."""

from __future__ import annotations

import ast
import pickle
import re
from pathlib import Path

import pytest

from ray_multicluster_scheduler import errors
from ray_multicluster_scheduler._plane import client
from support.plane import REPOSITORY

SDK = REPOSITORY / "python" / "ray_multicluster_scheduler"


def test_an_error_names_id_and_cluster_once_and_says_what_to_do() -> None:
    error = errors.ClusterConnectionError(
        "the connection to cluster 'mac' was lost", hint="try again", job_id="task-1", cluster="mac"
    )
    told = "the connection to cluster 'mac' was lost (task-1)\n  hint: try again"
    assert str(error) == told
    error.may_have_started = True
    sent = pickle.loads(pickle.dumps(error))
    assert (str(sent), sent.may_have_started) == (told, True)


def test_every_code_of_the_control_plane_has_an_exception_or_is_general_on_purpose() -> None:
    declared = (REPOSITORY / "crates" / "api" / "src" / "error.rs").read_text()
    codes = set(re.findall(r'^    [A-Z_]+ = "([a-z_]+)", \d{3},', declared, re.MULTILINE))
    assert len(codes) > 30
    assert set(client.BY_CODE) | client.GENERAL == codes
    assert not set(client.BY_CODE) & client.GENERAL
    assert {error.code for error in map(refused, codes)} == codes


def test_the_tree_of_exceptions_is_drawn_as_it_is() -> None:
    path: list[str] = []
    drawn = {}
    for line in str(errors.__doc__).splitlines():
        match = re.match(r"    ([│├└─ ]*)(\w+Error)\b", line)
        if match:
            depth = len(match[1]) // 4
            path[depth:] = [match[2]]
            drawn[match[2]] = path[depth - 1] if depth else "Exception"
    actual = {name: getattr(errors, name).__bases__[0].__name__ for name in errors.__all__}
    assert drawn == actual


def refused(code: str) -> errors.SchedulerError:
    return client.refusal({"code": code, "message": "no", "hint": "try again"})


@pytest.mark.parametrize(
    "file", [*(SDK / "_work").glob("*.py"), *(SDK / "_ray").glob("*.py")], ids=lambda f: f.name
)
def test_every_error_about_tasks_and_actors_has_a_hint(file: Path) -> None:
    made = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
    without = [
        f"{file.name}:{call.lineno} {ast.unparse(call.func)}"
        for call in made
        if ast.unparse(call.func).rpartition(".")[2] in errors.__all__
        and "hint" not in [keyword.arg for keyword in call.keywords]
    ]
    assert without == []
