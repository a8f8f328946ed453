"""What the control plane answers, as types: the schemas of ``/v1/openapi.json`` by their names.

Only what the SDK reads or hands on. tests/sdk/test_wire.py compares each with the document.
Moments are milliseconds since 1970.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    # Python 3.9 and 3.10 have no NotRequired. Type checkers bring typing_extensions themselves.
    from typing_extensions import NotRequired


class ErrorBody(TypedDict):
    #: A stable word; programs go by this one.
    code: str
    message: str
    hint: NotRequired[str | None]


class Version(TypedDict):
    version: str
    api: str
    #: Which control plane: made once per state directory.
    plane: str


class Setting(TypedDict):
    name: str
    value: str
    default: str
    env: str
    doc: str


# -- jobs


class Accepted(TypedDict):
    id: str
    #: ``same_id`` or ``same_content``, if the job existed already.
    duplicate: NotRequired[str | None]
    #: All of `notices` in one text.
    notice: NotRequired[str | None]
    #: What the caller may not have meant.
    notices: NotRequired[list[str]]


class PolicyScore(TypedDict):
    policy: str
    score: float


class ReasonText(TypedDict):
    reason: str
    text: str


class ClusterVerdict(TypedDict):
    cluster: str
    #: ``chosen``, ``eligible`` or ``rejected``.
    verdict: str
    score: NotRequired[float | None]
    #: A stable word for why not.
    reason: NotRequired[str | None]
    details: NotRequired[dict[str, Any]]
    text: str
    #: The reasons behind the one that counts most.
    others: NotRequired[list[ReasonText]]
    parts: NotRequired[list[PolicyScore]]


class Turns(TypedDict):
    owner: str
    #: Shares of the pool, 0 to 1.
    entitled: float
    had: float
    holds: float
    half_life_seconds: int
    #: The owner that goes first, if the caller may know it.
    next: NotRequired[str | None]
    text: str


class Explanation(TypedDict):
    id: str
    state: str
    at: int
    summary: str
    queue: NotRequired[str | None]
    ahead: NotRequired[int | None]
    not_before_at: NotRequired[int | None]
    last_error: NotRequired[str | None]
    #: Set if work of another owner goes first.
    turns: NotRequired[Turns | None]
    cluster: NotRequired[str | None]
    attempt: NotRequired[int | None]
    #: If the job is queued: what each cluster would say to it now.
    clusters: list[ClusterVerdict]


class Job(TypedDict):
    id: str
    kind: str
    state: str
    #: The state in Ray's words.
    ray_status: str
    entrypoint: NotRequired[str | None]
    metadata: NotRequired[dict[str, str]]
    demand: dict[str, float]
    tags: NotRequired[list[str]]
    preferred_cluster: NotRequired[str | None]
    priority: int
    preemptible: NotRequired[bool]
    #: Seconds.
    stop_grace: NotRequired[float | None]
    parent_job: NotRequired[str | None]
    owner: NotRequired[str | None]
    cluster: NotRequired[str | None]
    attempts: int
    #: The id of the latest attempt on its Ray cluster.
    submission_id: NotRequired[str | None]
    submitted_at: int
    queued_at: NotRequired[int | None]
    dispatched_at: NotRequired[int | None]
    running_at: NotRequired[int | None]
    unreachable_at: NotRequired[int | None]
    ended_at: NotRequired[int | None]
    message: NotRequired[str | None]
    #: Why it failed, in one line.
    cause: NotRequired[str | None]
    exit_code: NotRequired[int | None]


class JobDetail(Job):
    why: NotRequired[Explanation | None]


class JobEvent(TypedDict):
    """An event about a job. The document leaves events open, so this one is not compared."""

    job: str
    state: str
    at: int
    cluster: NotRequired[str | None]
    attempt: NotRequired[int | None]
    message: NotRequired[str | None]


# -- clusters


class Health(TypedDict):
    #: ``healthy``, ``unhealthy``, ``unauthorized``, or ``never_seen`` before the first answer.
    state: str
    since_at: NotRequired[int | None]
    error: NotRequired[str | None]


class Breaker(TypedDict):
    #: ``closed`` (work passes), ``open`` (none does) or ``half_open`` (one probe does).
    state: str
    until_at: NotRequired[int | None]


class Cluster(TypedDict):
    """A cluster as :func:`list_clusters` shows it; docs/api.md explains each field."""

    name: str
    head_address: str
    dashboard: str
    #: ``file`` or ``api``: where it was registered.
    source: str
    tags: list[str]
    weight: float
    prefer: bool
    health: Health
    breaker: Breaker
    #: Why an operator keeps new work off it.
    cordoned: NotRequired[str | None]
    draining: bool
    leaving: bool
    #: Ray's logical resources; absent until the cluster has answered once.
    total: NotRequired[dict[str, float]]
    used: NotRequired[dict[str, float]]
    free: NotRequired[dict[str, float]]
    promised: dict[str, float]
    claimed: dict[str, float]
    nodes: NotRequired[int | None]
    os: NotRequired[str | None]
    arch: NotRequired[str | None]
    ray_version: NotRequired[str | None]
    python_version: NotRequired[str | None]
    snapshot_at: NotRequired[int | None]
    live: int
    top_level_jobs: int
    next_submission_at: NotRequired[int | None]
    runtime_env: dict[str, Any]
    home_dir: NotRequired[str | None]
    inject_sdk: NotRequired[bool | None]
    plane_address: NotRequired[str | None]


class ClusterConnection(TypedDict):
    name: str
    head_address: str
    token: NotRequired[str | None]
    runtime_env: dict[str, Any]
    plane_address: NotRequired[str | None]
    ray_version: NotRequired[str | None]
    python_version: NotRequired[str | None]
    incarnation: NotRequired[str | None]


# -- tasks and actors


class Granted(TypedDict):
    cluster: str
    attempt: int
    stopping: bool
    #: The grant ends this long after the last heartbeat.
    lease_seconds: int
    #: For this long, tasks of the same request may follow each other without asking again.
    reuse_seconds: int


class Placement(TypedDict):
    id: str
    kind: str
    #: ``queued``, ``granted`` or ``ended``.
    status: str
    state: str
    granted: NotRequired[Granted | None]
    why: NotRequired[Explanation | None]
    message: NotRequired[str | None]
    #: What the caller may not have meant; only in the answer to its submission.
    notices: NotRequired[list[str]]


class LeaseAnswer(TypedDict):
    id: str
    attempt: NotRequired[int | None]
    #: ``alive``, ``stopping``, ``queued``, ``granted``, ``released`` or ``gone``.
    status: str


# -- policies


class Policy(TypedDict):
    name: str
    kind: str
    source: str
    weight: NotRequired[float | None]
    expression: NotRequired[str | None]


class WhatIf(TypedDict):
    chosen: NotRequired[str | None]
    refused: NotRequired[str | None]
    clusters: list[ClusterVerdict]


class TriedWork(TypedDict):
    job: NotRequired[str | None]
    decided: NotRequired[str | None]
    decided_at: NotRequired[int | None]
    differs: bool
    now: WhatIf
    then: WhatIf


class PolicyTried(TypedDict):
    at: int
    differ: int
    items: list[TriedWork]
    left_out: int
