"""The earlier prototype's import paths, names, parameters and defaults, without any Ray."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import os
import pickle
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ray_multicluster_scheduler import Submission, _scheduler, errors
from ray_multicluster_scheduler import scheduler as gone
from support.plane import REPOSITORY
from support.prototype import API, CALLS, ERRORS, METHODS, MODULES, NAMES, PACKAGE, RECORDS


@pytest.mark.parametrize(("module", "name", "wanted"), CALLS)
def test_a_call_has_the_parameters_and_defaults_it_had(
    module: str, name: str, wanted: str | None
) -> None:
    call = getattr(importlib.import_module(module), name)
    assert callable(call)
    if wanted is not None:
        assert_takes(call, wanted)


@pytest.mark.parametrize(("module", "kind", "name", "wanted"), METHODS)
def test_a_method_has_the_parameters_and_defaults_it_had(
    module: str, kind: str, name: str, wanted: str
) -> None:
    method = inspect.getattr_static(getattr(importlib.import_module(module), kind), name)
    if isinstance(method, staticmethod):
        assert_takes(method.__func__, wanted)
    else:
        assert_takes(method.__get__(object()), wanted)


@pytest.mark.parametrize(("module", "name", "wanted"), RECORDS)
def test_a_record_has_the_fields_it_had_in_their_order(module: str, name: str, wanted: str) -> None:
    record = getattr(importlib.import_module(module), name)
    assert [field.name for field in dataclasses.fields(record)] == wanted.split()


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_a_name_that_is_no_call_is_there(module: str, name: str) -> None:
    assert name in importlib.import_module(module).__all__
    assert getattr(importlib.import_module(module), name) is not None


@pytest.mark.parametrize(
    ("program", "instead"),
    [
        *(
            (f"from {PACKAGE}.scheduler.{folder}.anything import {names[0]}", text)
            for folder, (names, text) in gone.GONE.items()
        ),
        *(
            (f"from {PACKAGE}.scheduler import {name}", text)
            for names, text in gone.GONE.values()
            for name in names
        ),
        (f"import {PACKAGE}.scheduler.anything.at_all", gone.OTHERWISE),
    ],
)
def test_what_was_inside_the_prototype_is_gone_and_says_what_replaces_it(
    program: str, instead: str
) -> None:
    with pytest.raises(ModuleNotFoundError) as caught:
        exec(program)
    assert instead.replace("`", "") in str(caught.value)
    assert "migrating-from-the-prototype.md" in str(caught.value)
    assert str(caught.value.name).startswith(f"{PACKAGE}.scheduler.")


def test_the_migration_guide_tells_of_each_module_that_is_there_and_that_is_gone() -> None:
    guide = (REPOSITORY / "docs/migrating-from-the-prototype.md").read_text()
    section = guide.partition("\n## Imports\n")[2].partition("\n## ")[0]
    there, _, rest = section.partition("Everything below")
    told = re.findall(r"`(\.[a-z_.]+)`", there)
    assert [PACKAGE + module for module in told] == MODULES
    rows = [line for line in rest.splitlines() if line.startswith("| `scheduler.")]
    assert rows == [
        f"| `scheduler.{folder}` | {', '.join(f'`{name}`' for name in names)} | {text} |"
        for folder, (names, text) in gone.GONE.items()
    ]


@pytest.mark.parametrize("name", [name for module, name, _ in CALLS if module == API])
def test_the_packages_star_import_brings_each_name(name: str) -> None:
    assert name in importlib.import_module(API).__all__


@pytest.mark.parametrize(
    "program",
    [
        "from {api} import submit_job as a; from {api}.submit_job import submit_job as b",
        "from {api}.submit_job import submit_job as a; from {api} import submit_job as b",
        "import {api}.submit_job as m; a = m; b = m.submit_job; m.wait_for_all_jobs",
        "import {api}; a = {api}.submit_job; b = {api}.submit_job.submit_job",
        "from {api} import submit_job as m; a = m; b = m.submit_job; m.get_job_info",
        "import {api}.submit_task as m; a = m; b = m.submit_task; m.get_task_result",
        "import {api}.submit_actor as m; a = m; b = m.submit_actor; m.get_actor_status",
    ],
)
def test_a_submodule_and_its_function_are_found_in_any_order_of_import(program: str) -> None:
    """In a program of its own, because the first import decides."""
    check = "; assert a is b and callable(a); import sys; assert 'ray' not in sys.modules"
    run = [sys.executable, "-c", program.format(api=API) + check]
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY / "python")}
    done = subprocess.run(run, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_the_functions_are_real_ones_that_other_processes_find() -> None:
    from ray_multicluster_scheduler.app.client_api import submit_job

    assert inspect.isfunction(submit_job)
    assert pickle.loads(pickle.dumps(submit_job)) is submit_job


@pytest.mark.parametrize("name", ERRORS)
def test_the_errors_are_the_same_classes(name: str) -> None:
    exception = importlib.import_module(f"{PACKAGE}.common.exception")
    assert getattr(exception, name) is getattr(errors, name)
    assert issubclass(getattr(exception, name), exception.SchedulerError)


def test_the_cluster_of_a_thread_is_its_own() -> None:
    from ray_multicluster_scheduler.app.client_api.submit_actor import get_current_cluster_context
    from ray_multicluster_scheduler.app.client_api.submit_task import set_current_cluster_context
    from ray_multicluster_scheduler.common.context_manager import ClusterContextManager

    seen: list[str | None] = []
    ClusterContextManager.set_current_cluster("mac")
    try:
        other = threading.Thread(target=lambda: seen.append(get_current_cluster_context()))
        other.start()
        other.join()
        assert seen == [None]
        assert get_current_cluster_context() == "mac"
        set_current_cluster_context("centos")
        assert ClusterContextManager().get_current_cluster() == "centos"
    finally:
        ClusterContextManager.clear_current_cluster()
    assert ClusterContextManager.get_current_cluster() is None


class Recorder:
    """Replaces the scheduler: records the calls, and returns the name of each."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple]] = []

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any) -> Any:
            self.calls.append((name, args))
            return [{"name": "mac"}] if name == "list_clusters" else name

        return call


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    recorder = Recorder()
    monkeypatch.setattr(_scheduler, "_current", recorder)
    return recorder


def work() -> None:
    """Something to submit."""


# Arguments in the order of the parameters, passed on.
GIVEN_JOB = ("true", {"pip": []}, "j", {"k": "v"}, "s", "mac", {"CPU": 1}, ["x"])
GIVEN_TASK = (work, (1,), {"b": 2}, {"CPU": 1}, ["x"], "n", "mac")


@pytest.mark.parametrize(
    ("module", "name", "given", "handed_on"),
    [
        ("submit_job", "submit_job", GIVEN_JOB, GIVEN_JOB),
        ("submit_job", "get_job_status", ("a", "mac"), ("a", "mac")),
        ("submit_job", "get_job_info", ("a", "mac"), ("a", "mac")),
        ("submit_job", "stop_job", ("a", "mac"), ("a", "mac")),
        ("submit_job", "wait_for_all_jobs", (["a", "b"], 1, 9), (["a", "b"], 1, 9)),
        ("submit_task", "submit_task", GIVEN_TASK, GIVEN_TASK),
        ("submit_task", "get_task_result", ("t",), ("t",)),
        ("submit_task", "get_task_status", ("t",), ("t",)),
        ("submit_actor", "submit_actor", (*GIVEN_TASK, 7), (*GIVEN_TASK, 7)),
        ("submit_actor", "get_actor_status", ("a",), ("a",)),
    ],
)
def test_a_call_goes_to_this_programs_scheduler_whole(
    recorder: Recorder, module: str, name: str, given: tuple, handed_on: tuple
) -> None:
    answer = getattr(importlib.import_module(f"{API}.{module}"), name)(*given)
    assert recorder.calls == [(name, handed_on)]
    assert answer == name


@pytest.mark.parametrize(
    ("module", "name", "keyword"),
    [
        ("submit_task", "submit_task", "fn"),
        ("submit_task", "submit_task", "func"),
        ("submit_actor", "submit_actor", "cls"),
        ("submit_actor", "submit_actor_async", "cls"),
        ("submit_actor", "submit_actor", "actor_class"),
    ],
)
def test_what_runs_is_taken_by_both_of_its_keywords(
    recorder: Recorder, module: str, name: str, keyword: str
) -> None:
    call = getattr(importlib.import_module(f"{API}.{module}"), name)
    call(**{keyword: work}, args=(1,))
    assert recorder.calls[0][1][:2] == (work, (1,))
    if keyword in {"fn", "cls"}:
        with pytest.raises(TypeError, match=keyword):
            call(**{keyword: work, "func" if keyword == "fn" else "actor_class": work})


@pytest.mark.parametrize(
    ("name", "keyword"),
    [
        ("submit_task", "fn"),
        ("submit_task_async", "fn"),
        ("submit_actor", "cls"),
        ("submit_actor_async", "cls"),
    ],
)
def test_the_new_calls_take_both_keywords_too(
    monkeypatch: pytest.MonkeyPatch, name: str, keyword: str
) -> None:
    seen: list[Any] = []
    for inner in ("_task", "_actor"):
        monkeypatch.setattr(
            _scheduler.Scheduler, inner, lambda self, id, thing, *_: seen.append(thing)
        )
    monkeypatch.setattr(_scheduler.Scheduler, "_later", lambda self, plan: plan.submit(plan.id))
    scheduler = object.__new__(_scheduler.Scheduler)
    scheduler._tasks = scheduler._actors = None  # type: ignore[assignment]
    getattr(scheduler, name)(**{keyword: work})
    assert seen == [work]


def test_the_result_of_an_actor_is_its_handle(recorder: Recorder) -> None:
    from ray_multicluster_scheduler.app.client_api.submit_actor import get_actor_result

    assert get_actor_result("a") == "get_actor_handle"


def test_an_actor_submitted_without_waiting_is_a_future_that_unpacks(recorder: Recorder) -> None:
    from ray_multicluster_scheduler.app.client_api.submit_actor import submit_actor_async

    assert submit_actor_async(*GIVEN_TASK) == "submit_actor_async"
    assert recorder.calls == [("submit_actor_async", GIVEN_TASK)]
    future = Submission("actor-1")
    future.set_result(("actor-1", "a handle"))
    id, handle = future
    assert (id, handle) == ("actor-1", "a handle")


@pytest.mark.parametrize("what", ["scheduler", "actor_scheduler", "job_scheduler"])
def test_what_is_initialised_with_a_scheduler_uses_it(recorder: Recorder, what: str) -> None:
    api = importlib.import_module(API)
    other = Recorder()
    getattr(api, f"initialize_{what}")(other)
    api.submit_job("true")
    assert (len(other.calls), len(recorder.calls)) == (1, 0)


def test_the_unified_scheduler_is_this_programs_scheduler(recorder: Recorder) -> None:
    from ray_multicluster_scheduler.app.client_api import (
        get_unified_scheduler,
        unified_submit_actor,
        unified_submit_task,
    )

    unified = get_unified_scheduler()
    assert unified is get_unified_scheduler()
    assert unified.submit_job("true") == "submit_job"
    assert unified.submit_task(work) == unified_submit_task(work) == "submit_task"
    assert unified.submit_actor(Recorder) == unified_submit_actor(Recorder) == "submit_actor"
    assert unified.list_clusters() == ["mac"]
    unified.cleanup()
    assert recorder.calls[-1] == ("stop", ())


def test_cleaning_up_after_stopping_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray_multicluster_scheduler.app.client_api import UnifiedScheduler

    def started(*_: Any) -> None:
        raise AssertionError("a control plane was looked for")

    monkeypatch.setattr(_scheduler, "_current", None)
    monkeypatch.setattr(_scheduler, "attach", started)
    UnifiedScheduler().cleanup()


def test_a_circuit_opens_after_failures_and_lets_one_call_through_later() -> None:
    from ray_multicluster_scheduler.common.circuit_breaker import CircuitBreaker, CircuitState

    breaker = CircuitBreaker(failure_threshold=2, recovery_timeout=60)
    for _ in range(2):
        assert breaker.is_closed()
        with pytest.raises(ZeroDivisionError):
            breaker.call(lambda: 1 / 0)
    assert breaker.state is CircuitState.OPEN
    with pytest.raises(ConnectionError, match="open after 2 failures"):
        breaker.call(lambda: pytest.fail("it was called"))
    breaker.recovery_timeout = 0
    with pytest.raises(ZeroDivisionError):
        breaker.call(lambda: 1 / 0)
    assert breaker.is_open(), "the call that was tried failed"
    seen = breaker.call(lambda: breaker.is_half_open())
    assert (seen, breaker.is_closed(), breaker.failure_count) == (True, True, 0)


def test_a_settings_file_of_ones_own_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from ray_multicluster_scheduler.common.config import SchedulerSettings

    monkeypatch.setattr(_scheduler, "_current", None)
    file = tmp_path / "settings.yaml"
    file.write_text("RESOURCE_THRESHOLD: 0.5\nRETRY_SLEEP: 2\nACTOR_READY_TIMEOUT: 7\n")
    told = SchedulerSettings().load(str(file)).to_dict()
    assert (told["RESOURCE_THRESHOLD"], told["RETRY_SLEEP"]) == (0.5, 2)
    assert told["ACTOR_READY_TIMEOUT"] == 7
    assert told["TASK_QUEUE_MAX_SIZE"] == 100000


def test_a_settings_object_shows_defaults_and_what_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray_multicluster_scheduler.common.config import ExecutionMode, settings

    monkeypatch.setattr(_scheduler, "_current", None)
    monkeypatch.setenv("SCHEDULER_JOB_COMPLETION_TIMEOUT", "900")
    monkeypatch.setenv("SCHEDULER_SUBMISSION_WAIT_TIME", "1m")
    monkeypatch.setenv("SCHEDULER_EXECUTION_MODE", "serial")
    assert settings.EXECUTION_MODE is ExecutionMode.SERIAL
    assert settings.SUBMISSION_WAIT_TIME == 60
    assert settings.JOB_COMPLETION_TIMEOUT == 900
    assert settings.RETRY_SLEEP == 0.5
    assert settings.RESOURCE_THRESHOLD == 0.7
    assert settings.ACTOR_READY_TIMEOUT == 300
    with pytest.raises(AttributeError, match="NO_SUCH"):
        _ = settings.NO_SUCH


def assert_takes(call: Any, wanted: str) -> None:
    """These parameters in this order, with these defaults. More may follow, as keywords only; and
    required ones may have become optional."""
    expected = list(signature(wanted).parameters.values())
    actual = [
        parameter
        for parameter in inspect.signature(call).parameters.values()
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    assert [p.name for p in actual][: len(expected)] == [p.name for p in expected]
    for has, had in zip(actual, expected):
        assert had.default in (inspect.Parameter.empty, has.default), has
    for more in actual[len(expected) :]:
        assert more.default is not inspect.Parameter.empty, more


def signature(text: str) -> inspect.Signature:
    scope: dict[str, Any] = {}
    exec(f"def made({text}): ...", scope)
    return inspect.signature(scope["made"])
