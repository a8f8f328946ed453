"""The earlier prototype's settings, for reading.

Deprecated: ``GET /v1/settings`` of the control plane has all of its own.
"""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path
from typing import Any

from .. import _settings
from .._scheduler import attached

__all__ = ["ExecutionMode", "SchedulerSettings", "settings"]

#: Settings of the control plane, for when none is attached: names as here, then the default.
PLANE_DEFAULTS = {
    "EXECUTION_MODE": "parallel",
    "SUBMISSION_WAIT_TIME": "40s",
    "RESOURCE_THRESHOLD": "0.7",
    "RESOURCE_CHECK_INTERVAL": "5s",
    "TASK_QUEUE_MAX_SIZE": "100000",
    "CIRCUIT_BREAKER_FAILURE_THRESHOLD": "5",
    "CIRCUIT_BREAKER_RECOVERY_TIMEOUT": "60s",
    "BACKOFF_TIME": "5m",
}

#: The prototype's settings that belong to the SDK now.
SDK_NAMES = ("ACTOR_READY_TIMEOUT",)


class ExecutionMode(str, Enum):
    """How many top-level jobs run on one cluster."""

    SERIAL = "serial"
    PARALLEL = "parallel"


class SchedulerSettings:
    """The prototype's names as attributes; lengths of time are seconds.

    Settings of the control plane come from the one in use. A setting without a meaning now has the
    value that was set, or the prototype's default, for programs that use it themselves.
    """

    def __init__(self) -> None:
        self._file: Path | None = None

    def load(self, config_file: str | os.PathLike[str] | None = None) -> SchedulerSettings:
        """Takes another file than ``~/.ray_scheduler/settings.yaml``. The environment comes first,
        and what a control plane decides stays as that has it.
        """
        self._file = None if config_file is None else Path(config_file)
        return self

    def to_dict(self) -> dict[str, Any]:
        """All of them."""
        return {name: getattr(self, name) for name in dir(self)}

    def __getattr__(self, name: str) -> Any:
        key = name.lower()
        if name in PLANE_DEFAULTS:
            return _value(self._of_the_plane(name))
        if key in _settings.RETIRED:
            text = self._given().get(_settings.variable(key))
            return _settings.RETIRED[key][0] if text is None else _value(text)
        if name in SDK_NAMES:
            return getattr(_settings.read(self._given()), key)
        raise AttributeError(f"there is no setting {name}")

    def __dir__(self) -> list[str]:
        return sorted([*PLANE_DEFAULTS, *SDK_NAMES, *map(str.upper, _settings.RETIRED)])

    def _given(self) -> dict[str, str]:
        return _settings.given(file=self._file)

    def _of_the_plane(self, name: str) -> str:
        proper = _settings.RENAMED.get(name.lower(), name.lower())
        # Reading a setting must not start a control plane.
        scheduler = attached()
        if scheduler is not None and scheduler._plane is not None:
            in_force = scheduler.plane.get("/v1/settings")["items"]
            return next(each["value"] for each in in_force if each["name"] == proper)
        given = self._given()
        old = given.get(_settings.variable(name), PLANE_DEFAULTS[name])
        return given.get(_settings.variable(proper), old)


settings = SchedulerSettings()


def _value(text: str) -> Any:
    number = _settings.seconds(text)
    if number is None:
        return ExecutionMode(text) if text in [mode.value for mode in ExecutionMode] else text
    return int(number) if number == int(number) else number
