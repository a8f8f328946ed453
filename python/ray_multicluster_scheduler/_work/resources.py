"""The resources that work needs: ``{"CPU": 2, "GPU": 1, "memory": "16GiB", "my_disk": 1}``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import ConfigurationError

#: People write 16 and mean GiB: a smaller amount is always a mistake.
LEAST_MEMORY = 1 << 20

_NAMES = {
    "CPU": "CPU",
    "GPU": "GPU",
    "memory": "memory",
    "num_cpus": "CPU",
    "num_gpus": "GPU",
}
_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGTP", start=1):
    _UNITS[_letter + "B"] = 1000**_power
    _UNITS[_letter + "iB"] = _UNITS[_letter + "i"] = 1024**_power
_SIZE = re.compile(r"\s*([0-9]*\.?[0-9]+(?:[eE][0-9]+)?)\s*([A-Za-z]*)\s*")


@dataclass(frozen=True)
class Demand:
    """Checked requirements; ``None`` where nothing was given."""

    cpus: float | None = None
    gpus: float | None = None
    memory: int | None = None
    custom: dict[str, float] = field(default_factory=dict)

    def or_else(self, other: Demand) -> Demand:
        """These values, with missing ones from `other`."""
        return Demand(
            cpus=other.cpus if self.cpus is None else self.cpus,
            gpus=other.gpus if self.gpus is None else self.gpus,
            memory=other.memory if self.memory is None else self.memory,
            custom={**other.custom, **self.custom},
        )

    def ray_options(self) -> dict[str, Any]:
        """As options of a Ray task or actor."""
        return _without_none(
            num_cpus=self.cpus,
            num_gpus=self.gpus,
            memory=self.memory,
            resources=self.custom or None,
        )

    def entrypoint(self) -> dict[str, Any]:
        """As fields of a job."""
        return _without_none(
            entrypoint_num_cpus=self.cpus,
            entrypoint_num_gpus=self.gpus,
            entrypoint_memory=self.memory,
            entrypoint_resources=self.custom or None,
        )

    def demand(self) -> dict[str, float]:
        """As the demand of a placement."""
        named = _without_none(CPU=self.cpus, GPU=self.gpus, memory=self.memory)
        return {**named, **self.custom}


def parse(requirements: Mapping[str, Any] | None) -> Demand:
    """Checks the requirements of a caller.

    Raises:
        ConfigurationError: an impossible amount.
    """
    if requirements is None:
        return Demand()
    if not isinstance(requirements, Mapping):
        raise ConfigurationError(
            f"resource_requirements is {_shown(requirements)}, not a dict",
            hint='write a dict, such as {"CPU": 2, "memory": "4GiB"}',
        )
    found: dict[str, Any] = {}
    custom: dict[str, float] = {}
    for key, value in requirements.items():
        name = _NAMES.get(key)
        if name in found:
            raise ConfigurationError(
                f"resource_requirements asks for {name} twice", hint=f"give {name!r} once"
            )
        if name == "memory":
            found[name] = memory(value)
        elif name is not None:
            found[name] = _amount(name, value)
        else:
            custom[_custom_name(key)] = _amount(key, value)
    return Demand(found.get("CPU"), found.get("GPU"), found.get("memory"), custom)


def of_options(options: Mapping[str, Any]) -> Demand:
    """The requirements in the options of a Ray task or actor."""
    asked = {key: options[key] for key in ("num_cpus", "num_gpus") if options.get(key) is not None}
    given = options.get("memory")
    custom = {key: float(value) for key, value in (options.get("resources") or {}).items()}
    return Demand(
        cpus=asked.get("num_cpus"),
        gpus=asked.get("num_gpus"),
        memory=int(given) if given else None,
        custom=custom,
    )


def memory(value: Any) -> int:
    """Bytes: a number as in Ray, or a text with a unit."""
    if isinstance(value, str):
        size = _SIZE.fullmatch(value)
        unit = size and _UNITS.get(size.group(2))
        if not size or unit is None:
            raise ConfigurationError(
                f"memory is {value!r}", hint='write "16GiB", "512MB", or a number of bytes'
            )
        amount = float(size.group(1)) * unit
    else:
        amount = _amount("memory", value)
    if 0 < amount < LEAST_MEMORY:
        raise ConfigurationError(
            f"memory is {value!r}, which is {amount:g} bytes",
            hint=f'memory is in bytes, as in Ray; for {value} GiB write "{value}GiB"'
            if not isinstance(value, str)
            else 'memory is in bytes, as in Ray; write "16GiB"',
        )
    return int(amount)


def _amount(name: str, value: Any) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < 0:
        raise ConfigurationError(
            f"{name} is {_shown(value)}", hint="use a number that is not negative"
        )
    if name == "GPU" and value > 1 and value != int(value):
        raise ConfigurationError(
            f"GPU is {value}", hint="use a fraction below 1, or a whole number"
        )
    return value


def _custom_name(key: Any) -> str:
    meant = {"cpu": "CPU", "cpus": "CPU", "gpu": "GPU", "gpus": "GPU", "mem": "memory"}
    usual = meant.get(str(key).lower(), "memory" if str(key).lower() == "memory" else None)
    if not isinstance(key, str) or not key or usual is not None:
        raise ConfigurationError(
            f"unknown resource {key!r} in resource_requirements",
            hint=f"write {usual!r}" if usual else "names of resources are strings",
        )
    return key


def _shown(value: Any) -> str:
    return f"{value!r} ({type(value).__name__})"


def _without_none(**options: Any) -> dict[str, Any]:
    return {key: value for key, value in options.items() if value is not None}
