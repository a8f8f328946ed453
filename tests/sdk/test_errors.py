"""Errors name the work and the cluster, and say what to do."""

from __future__ import annotations

import ast
import pickle
from pathlib import Path

import pytest

from ray_multicluster_scheduler import errors
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
