"""Policies: which are in force, registering one, and trying one before that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ._plane import wire
from ._plane.client import ControlPlane, segment
from .errors import ConfigurationError


@dataclass(frozen=True)
class Policy:
    """A policy in force."""

    name: str
    #: ``built_in``, ``score`` or ``filter``.
    kind: str
    #: ``file``: one of the settings, changed in cluster.yaml. ``api``: registered.
    source: str
    #: Share in the weighted sum; filters have none.
    weight: float | None = None
    #: The CEL expression, of those that have one.
    expression: str | None = None


@dataclass(frozen=True)
class TriedWork:
    """Where one piece of work would go, now and with the change."""

    #: Whether the choice would differ.
    differs: bool
    #: The cluster it would go to under the policies in force; None: it would be queued.
    now: str | None
    #: The same with the change.
    then: str | None
    #: The job, if it was ever submitted.
    job: str | None = None
    #: Where it really went, of a decision.
    decided: str | None = None
    #: Everything the control plane said: what each cluster would say, score by score.
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class PolicyTrial:
    """How choices would differ, judged on the clusters as they are now."""

    #: How many of the items would.
    differ: int
    items: tuple[TriedWork, ...]
    #: How many decisions were left out: their work is forgotten, or belongs to another owner.
    left_out: int = 0


def policies(plane: ControlPlane) -> list[Policy]:
    """All in force, those of the settings first."""
    return [_policy(found) for found in plane.get("/v1/policies")["items"]]


def register(plane: ControlPlane, name: str, rule: dict[str, Any]) -> Policy:
    """Registers it at once, in place of a registered policy of the same name."""
    return _policy(plane.request("PUT", f"/v1/policies/{segment(name)}", rule))


def unregister(plane: ControlPlane, name: str) -> None:
    """Removes it."""
    plane.request("DELETE", f"/v1/policies/{segment(name)}")


def attempt(plane: ControlPlane, trial: dict[str, Any]) -> PolicyTrial:
    """How choices would differ; nothing changes."""
    found: wire.PolicyTried = plane.post("/v1/policies/try", trial)
    return PolicyTrial(
        differ=found["differ"],
        items=tuple(_tried(item) for item in found["items"]),
        left_out=found["left_out"],
    )


def rule_of(expression: str | None, filter: str | None, weight: float | None) -> dict[str, Any]:
    """A policy as the control plane accepts it."""
    given = {"expression": expression, "filter": filter, "weight": weight}
    return {key: value for key, value in given.items() if value is not None}


def work_of(job_id: str | None, decisions: int | None) -> dict[str, Any]:
    """The work that it is tried on."""
    if job_id is not None and decisions is not None:
        raise ConfigurationError(
            "job_id and decisions are both given",
            hint="try it on one job, or on the last decisions",
        )
    given = {"job_id": job_id, "decisions": decisions}
    return {key: value for key, value in given.items() if value is not None}


def _policy(found: wire.Policy) -> Policy:
    return Policy(
        name=found["name"],
        kind=found["kind"],
        source=found.get("source", "file"),
        weight=found.get("weight"),
        expression=found.get("expression"),
    )


def _tried(found: wire.TriedWork) -> TriedWork:
    return TriedWork(
        differs=found["differs"],
        now=found["now"].get("chosen"),
        then=found["then"].get("chosen"),
        job=found.get("job"),
        decided=found.get("decided"),
        raw=dict(found),
    )
