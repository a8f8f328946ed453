"""The promises of docs/reliability.md, as functions of the recorded facts.

| kind | |
| --- | --- |
| lost | an accepted job that a later read does not find, or that does not end |
| run twice | a job that was created or began more often than it may, or began after it had ended |
| wrong final | a final status that changed, or that the job's own end contradicts |
| too early | shown or run before it was submitted, or shown before it happened |
| no reason | a job that waits, or is on its way, and cannot say for what |
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from .record import Facts, Job, Line, Shown, Why

LOST, TWICE, WRONG = "lost", "run twice", "wrong final"
EARLY, NO_REASON = "too early", "no reason"

# The message for a job whose head restarted: how it ended cannot be known any more.
HEAD_LOST = "restarted and no longer knows this job"

# Lines of fakes have milliseconds.
ROUNDED = 0.002


@dataclass(frozen=True)
class Violation:
    kind: str
    job: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.job}: {self.text}"


@dataclass
class Life:
    """Everything about one id, in the order of time."""

    job: Job
    created: list[Line] = field(default_factory=list)
    begins: list[Line] = field(default_factory=list)
    ends: list[Line] = field(default_factory=list)
    found: list[str] = field(default_factory=list)
    shown: list[Shown] = field(default_factory=list)
    #: It is FAILED because its head was killed under it, as the rules have it.
    is_head_lost: bool = False

    @property
    def finals(self) -> list[Shown]:
        return [shown for shown in self.shown if shown.is_final]


def check(facts: Facts, is_over: bool = True) -> list[Violation]:
    """Every broken promise, once. `is_over`: every accepted job must have ended."""
    found = []
    for life in _lives(facts).values():
        found += [Violation(kind, life.job.id, text) for kind, text in _judge(life, is_over)]
    found += [Violation(NO_REASON, why.job, text) for why in facts.whys for text in _silent(why)]
    for job_id, log in facts.logs:
        if any(text in log for text in facts.strangers):
            found.append(Violation(WRONG, job_id, "its log is that of a stranger's run"))
    return list(dict.fromkeys(found))


def head_lost(facts: Facts) -> set[str]:
    """The jobs that a lost head excuses."""
    return {job_id for job_id, life in _lives(facts).items() if life.is_head_lost}


def _lives(facts: Facts) -> dict[str, Life]:
    # Nobody submitted the others.
    unknown = {fact.job for fact in (*facts.lines, *facts.shown)} - facts.jobs.keys()
    jobs = {**facts.jobs, **{job_id: Job(job_id, writes=False) for job_id in sorted(unknown)}}
    lives = {job_id: Life(job) for job_id, job in jobs.items()}
    for line in sorted(facts.lines, key=lambda line: line.at):
        life = lives[line.job]
        {"sent": life.created, "begin": life.begins, "end": life.ends}[line.what].append(line)
    for cluster, job_id in sorted(facts.found):
        lives[job_id].found.append(cluster)
    for shown in sorted(facts.shown, key=lambda shown: shown.answered):
        lives[shown.job].shown.append(shown)
    there = _there(facts)
    for life in lives.values():
        life.is_head_lost = any(
            shown.status == "FAILED"
            and HEAD_LOST in shown.message
            and shown.cluster in there[life.job.id]
            for shown in life.finals
        )
    return lives


def _there(facts: Facts) -> dict[str, set[str]]:
    """Of each job, the clusters that lost their head while the job was shown to be there. Jobs
    that are sent to the new head have no excuse."""
    there = defaultdict(set)
    for loss in facts.losses:
        until = loss.until or float("inf")
        for shown in facts.shown:
            is_there = shown.cluster == loss.cluster and shown.status and not shown.is_final
            if is_there and loss.since <= shown.asked and shown.answered <= until:
                there[shown.job].add(loss.cluster)
    return there


def _judge(life: Life, is_over: bool) -> Iterator[tuple[str, str]]:
    yield from _order(life)
    yield from _presence(life, is_over)
    yield from _stability(life)
    if life.job.writes:
        yield from _runs(life)
        yield from _ends(life)


def _order(life: Life) -> Iterator[tuple[str, str]]:
    asked = life.job.asked
    moments = [line.at for line in (*life.created, *life.begins, *life.ends)]
    moments += [shown.answered for shown in life.shown if shown.status]
    if moments and asked is None:
        yield EARLY, "is there, and was not submitted"
    elif asked is not None and moments and min(moments) + ROUNDED < asked:
        yield EARLY, f"is there {asked - min(moments):.3f} s before it was submitted"


def _presence(life: Life, is_over: bool) -> Iterator[tuple[str, str]]:
    accepted = life.job.accepted
    if accepted is None:
        return
    if any(shown.status is None and shown.asked >= accepted for shown in life.shown):
        yield LOST, "was accepted, and is not there"
    if is_over and not life.finals:
        yield LOST, "was accepted, and has not ended"


def _stability(life: Life) -> Iterator[tuple[str, str]]:
    finals = life.finals
    if not finals:
        return
    first = finals[0]
    for shown in life.shown:
        # Of two reads at the same time, either may be the earlier one.
        is_later = shown.asked >= first.answered
        if shown.status and shown.status != first.status and (shown.is_final or is_later):
            yield WRONG, f"was {first.status}, and is {shown.status} now"
    if any(shown.status == "STOPPED" for shown in finals):
        stopped = life.job.stopped
        if stopped is None or stopped > first.answered:
            yield WRONG, "is STOPPED, and nobody stopped it"


def _runs(life: Life) -> Iterator[tuple[str, str]]:
    created, began = ([line.cluster for line in lines] for lines in (life.created, life.begins))
    for what, where in (("was created", created), ("is there", life.found), ("began", began)):
        if len(where) > life.job.runs:
            yield TWICE, f"{what} {len(where)} times: {', '.join(where)}"
    first = life.begins[0].at if life.begins else float("inf")
    for shown in life.shown:
        # Only a fake writes the line before it shows the job as running.
        if shown.state == "running" and life.created and first > shown.answered + ROUNDED:
            yield EARLY, "is shown running, and has not begun"
    last = life.begins[-1].at if life.begins else 0.0
    for final in [] if life.is_head_lost else life.finals[:1]:
        if last > final.answered + ROUNDED:
            yield TWICE, f"began after it was {final.status}"


def _ends(life: Life) -> Iterator[tuple[str, str]]:
    finals = life.finals
    if not finals or life.is_head_lost or finals[0].status == "STOPPED":
        return
    shown = finals[0]
    if not life.begins or not life.ends:
        yield WRONG, f"{shown.status}, and it has not run to its end: {shown.message}"
        return
    end = life.ends[-1]
    if (shown.status == "SUCCEEDED") != (end.exit_code == 0):
        yield WRONG, f"{shown.status}, and its exit code is {end.exit_code}: {shown.message}"
    if end.at > shown.answered + ROUNDED:
        yield EARLY, f"is {shown.status} {end.at - shown.answered:.3f} s before its end"
    if shown.cluster != end.cluster:
        yield WRONG, f"is shown on {shown.cluster}, and ran on {end.cluster}"


def _silent(why: Why) -> Iterator[str]:
    if not why.summary.strip():
        yield f"{why.state} without a word"
    if why.state == "queued" and not why.clusters:
        yield "waits, and no cluster says why"
    if why.to_ray == "":
        yield "pending without a message to Ray's clients"
