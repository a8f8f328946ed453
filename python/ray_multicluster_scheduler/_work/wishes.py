"""A caller's requirements for a task or an actor: where it may run, and Ray's options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .._ray import carried_options
from ..errors import ConfigurationError
from . import resources

#: Keywords of a submission that are not Ray's.
OURS = ("required", "priority", "timeout", "on_cluster_loss", "os", "arch")
#: As for jobs: never run twice, or run again elsewhere.
ON_CLUSTER_LOSS = ("wait", "requeue")


@dataclass(frozen=True)
class Wishes:
    """Where and how a task or actor should run."""

    resource_requirements: Mapping[str, Any] | None = None
    tags: Sequence[str] | None = None
    name: str = ""
    preferred_cluster: str | None = None
    required: bool = False
    priority: int | None = None
    timeout: float | None = None
    #: `requeue`: a task may run again elsewhere when its cluster is lost.
    on_cluster_loss: str = "wait"
    #: The platform that its cluster must have: `linux`, `arm64`.
    os: str | None = None
    arch: str | None = None
    #: Ray's own: num_returns, max_restarts, lifetime, ….
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        resource_requirements: Mapping[str, Any] | None,
        tags: Sequence[str] | None,
        name: str,
        preferred_cluster: str | None,
        more: Mapping[str, Any],
    ) -> Wishes:
        """Takes our own options from `more`; the rest is for Ray."""
        options = dict(more)
        ours = {key: options.pop(key) for key in OURS if key in more}
        if ours.get("on_cluster_loss", "wait") not in ON_CLUSTER_LOSS:
            raise ConfigurationError(
                f"on_cluster_loss is {ours['on_cluster_loss']!r}",
                hint=f"it is one of {', '.join(ON_CLUSTER_LOSS)}",
            )
        return cls(resource_requirements, tags, name, preferred_cluster, options=options, **ours)


def options_of(kind: str, function: Any, wishes: Wishes) -> tuple[dict[str, Any], resources.Demand]:
    """Ray's options for the call, and its demand on a cluster."""
    options = dict(wishes.options)
    if wishes.name:
        options["name"] = wishes.name
    both = sorted({"num_cpus", "num_gpus", "memory", "resources"} & options.keys())
    if both and wishes.resource_requirements:
        raise ConfigurationError(
            f"{both[0]} and resource_requirements are both given", hint="use one of the two"
        )
    if options.get("memory") is not None:
        options["memory"] = resources.memory(options["memory"])
    asked = resources.parse(wishes.resource_requirements).or_else(resources.of_options(options))
    options.update(asked.ray_options())
    carried = carried_options(function, is_actor=kind == "actor")
    asked = asked.or_else(resources.of_options(carried))
    if asked.cpus is None and kind == "task":
        # Ray's default for a task without a demand. An actor holds no CPU by default.
        asked = asked.or_else(resources.Demand(cpus=1))
    return options, asked
