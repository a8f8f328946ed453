"""The settings of the SDK, and what became of the earlier prototype's.

Most settings are the control plane's (docs/configuration.md). Those below are about this
program: how long it waits. All are read as ``SCHEDULER_<NAME>`` from the environment,
else from ``~/.ray_scheduler/settings.yaml`` as the prototype had it.
"""

from __future__ import annotations

import functools
import logging
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from ._plane.wire import Setting
from .errors import ConfigurationError

PREFIX = "SCHEDULER_"

_log = logging.getLogger("ray_multicluster_scheduler")


def _seconds(default: float, meaning: str) -> float:
    return field(default=default, metadata={"meaning": meaning})


@dataclass(frozen=True)
class Settings:
    """All in seconds. Each is declared once, here."""

    call_timeout: float = _seconds(
        15.0, "How long a call to a cluster that has stopped answering may take."
    )
    actor_ready_timeout: float = _seconds(
        300.0, "How long submit_actor waits for a cluster, unless the call says."
    )


#: The prototype's names for settings of the control plane, which understands both.
RENAMED = {
    "submission_wait_time": "submission_interval",
    "resource_check_interval": "poll_interval",
    "task_queue_max_size": "max_queue",
    "circuit_breaker_failure_threshold": "breaker_failures",
    "circuit_breaker_recovery_timeout": "breaker_cooldown",
    "backoff_time": "retry_backoff_max",
}

#: The prototype's settings without a meaning now: the default, and what to do instead.
RETIRED = {
    "job_completion_timeout": (600, "pass `timeout` to wait_for_all_jobs"),
    "task_completion_timeout": (600, "pass `timeout` to ray.get"),
    "default_task_timeout": (300, "pass `timeout` to ray.get"),
    "connection_timeout": (
        300,
        "set SCHEDULER_CALL_TIMEOUT, the time that a cluster has to answer",
    ),
    "job_client_timeout": (300, "nothing: a request to the control plane takes 30 s at most"),
    "job_status_check_interval": (15, "nothing: the control plane reports the end of a job"),
    "health_check_interval": (30, "set poll_interval and unhealthy_after in cluster.yaml"),
    "cache_timeout": (5, "set snapshot_max_age in cluster.yaml"),
    "retry_sleep": (0.5, "set retry_backoff in cluster.yaml"),
    "cluster_weight_default": (1.0, "give each cluster its `weight` in cluster.yaml"),
}

#: The default of submit_actor's `timeout`. Created at run time, so that it is an object of its own:
#: the setting replaces the default, never a 300 that the caller wrote.
ACTOR_READY_TIMEOUT = float("300")


@functools.cache
def settings() -> Settings:
    """This program's settings, read at first use."""
    return read(given())


def actor_timeout(timeout: float | None) -> float | None:
    """The effective value of submit_actor's `timeout`."""
    return settings().actor_ready_timeout if timeout is ACTOR_READY_TIMEOUT else timeout


def given(
    env: Mapping[str, str] | None = None, home: Path | None = None, file: Path | None = None
) -> dict[str, str]:
    """What the environment and the prototype's file set, as ``SCHEDULER_<NAME>``: text."""
    env = os.environ if env is None else env
    named = {key: text for key, text in env.items() if key.startswith(PREFIX)}
    return {**_from_file(file or settings_file(home)), **named}


def settings_file(home: Path | None = None) -> Path:
    """Where the prototype kept its settings."""
    base = Path(os.path.expanduser("~")) if home is None else home
    return base / ".ray_scheduler" / "settings.yaml"


def read(given: Mapping[str, str]) -> Settings:
    """The SDK's settings; a value that cannot be read is an error."""
    values = {}
    for setting in fields(Settings):
        text = given.get(variable(setting.name))
        if text is not None:
            values[setting.name] = _positive(variable(setting.name), text)
    return Settings(**values)


def plane_environment(given: Mapping[str, str]) -> dict[str, str]:
    """The part for a control plane that this program starts, which knows no other settings."""
    ours = {variable(setting.name) for setting in fields(Settings)}
    gone = {variable(name) for name in RETIRED}
    return {key: text for key, text in given.items() if key not in ours | gone}


def warn(given: Mapping[str, str], in_force: Iterable[Setting] = ()) -> None:
    """Warns once of settings without effect; `in_force` is the control plane's own list."""
    for line in notices(given, in_force):
        _say_once(line)


def notices(given: Mapping[str, str], in_force: Iterable[Setting] = ()) -> list[str]:
    """One line for each setting that was set and has no effect.

    A running control plane keeps the settings it was started with, and other programs use it too:
    this program's settings cannot change them.
    """
    lines = []
    values = {setting["name"]: setting["value"] for setting in in_force}
    for key, text in sorted(given.items()):
        name = key[len(PREFIX) :].lower()
        if name in RETIRED:
            lines.append(f"{key} no longer has any effect; hint: {RETIRED[name][1]}")
            continue
        name = RENAMED.get(name, name)
        if name in values and not _same(text, values[name]):
            lines.append(
                f"{key}={text} has no effect: the control plane runs with {name} "
                f"{values[name]}; hint: set it under `scheduler:` in cluster.yaml"
            )
    return lines


def variable(name: str) -> str:
    """The variable of a setting."""
    return PREFIX + name.upper()


def seconds(text: str) -> float | None:
    """A length of time as the control plane writes it; `None` for anything else."""
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*(ms|s|m|h|d)?\s*", text)
    if match is None:
        return None
    units = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
    return float(match[1]) * units[match[2] or "s"]


def _positive(name: str, text: str) -> float:
    value = seconds(text)
    if not value:
        raise ConfigurationError(
            f"{name}: {text[:40]!r} is not valid",
            hint="expected a length of time such as 40s, 500ms, 5m, or a number of seconds",
        )
    return value


def _same(text: str, value: str) -> bool:
    percent = re.fullmatch(r"\s*([0-9.]+)\s*%\s*", text)
    length = seconds(percent[1]) if percent else seconds(text)
    if length is None:
        return text.strip() == value
    return (length / 100 if percent else length) == seconds(value)


def _from_file(path: Path) -> dict[str, str]:
    """``NAME: value`` by lines. The prototype's file is flat, so it takes no YAML reader."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        _say_once(f"cannot read {path}: {error}; hint: move the settings to cluster.yaml")
        return {}
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() == "---" or not line.partition("#")[0].strip():
            continue
        match = re.fullmatch(r"(\w+):\s+[\"']?([^\"'#]+?)[\"']?\s*(?:#.*)?", line)
        if match:
            found[variable(match[1])] = match[2]
        else:
            _say_once(f"{path}:{number} is not a setting; hint: write `NAME: value`")
    return found


@functools.cache
def _say_once(line: str) -> None:
    _log.warning(line)
