"""Forks, spawns and starts a forkserver while tasks, actors and refs are alive or just dropped.

    python forks.py ROUNDS [fork spawn forkserver]

Each child uses and drops the parent's objects, and must end in time; then the parent must still
work. Hundreds of rounds by hand; a few in the suite.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import sys
import time
from typing import Any

import pytest
import ray

import ray_multicluster_scheduler as rms

#: A child that takes longer hangs: spawned ones import everything first.
LIMIT = {"fork": 15.0, "spawn": 90.0, "forkserver": 90.0}

#: What the parent had at the fork; a forked child drops it.
KEPT: list[Any] = []


def where(number: int = 0) -> tuple[str, int]:
    return os.environ["CLUSTER_FLAVOUR"], number


class Model:
    def number(self, value: int) -> int:
        return value


def work(round_: int) -> list[Any]:
    """Refs and handles: fetched, running, just submitted, and their ids not yet known."""
    cluster = ("centos", "mac")[round_ % 2]
    kept: list[Any] = []
    fetched = rms.submit_task(where, args=(round_,), num_cpus=0.1, preferred_cluster=cluster)[1]
    ray.get(fetched)
    actor = rms.submit_actor(Model, num_cpus=0.1, preferred_cluster=cluster)[1]
    kept += [fetched, actor, ray.put(round_), actor.number.remote(round_)]
    kept += [rms.submit_task(where, num_cpus=0.1)[1] for _ in range(4)]
    kept += [ref for _, ref in rms.submit_tasks(where, [(n,) for n in range(20)], num_cpus=0.1)]
    return kept


def child(how: str, round_: int) -> None:
    """Uses and drops what its parent had: nothing of it may hang, or reach a cluster."""
    if how == "fork":
        refs = [one for one in KEPT if isinstance(one, ray.ObjectRef)]
        for use in (ray.get, hash, repr, ray.cancel):
            with contextlib.suppress(rms.ClusterConnectionError):
                use(refs[-1])
        with pytest.raises(rms.ClusterConnectionError, match="forked"):
            ray.get(refs[-1])
        with pytest.raises(rms.ClusterConnectionError, match="forked"):
            refs[-1].future()
        del refs
        KEPT.clear()
        gc.collect()
        with pytest.raises(rms.ConfigurationError, match="spawn"):
            rms.submit_task(where, num_cpus=0.1)
    elif round_ % 4 == 0:
        with rms.initialize_scheduler_environment():
            # By value: the cluster cannot import this program.
            assert ray.get(rms.submit_task(lambda: round_, num_cpus=0.1)[1]) == round_
    if round_ % 4 == 1:
        # Over HTTP, with connections of its own.
        assert {one["name"] for one in rms.current_scheduler().list_clusters()} == {"centos", "mac"}


def bare(round_: int) -> int:
    """`os.fork`, and the way out of the interpreter: exit handlers, then every module."""
    pid = os.fork()
    if pid == 0:
        child("fork", round_)
        sys.exit(0)
    return pid


def ends_in_time(pid: int, limit: float) -> None:
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            assert status == 0, f"process {pid} ended with {status}"
            return
        time.sleep(0.01)
    os.kill(pid, signal.SIGABRT)
    os.waitpid(pid, 0)
    raise AssertionError(f"process {pid} did not end in {limit} s")


def one_round(how: str, round_: int) -> None:
    KEPT[:] = work(round_)
    if round_ % 3 == 2:
        # Just dropped: their finalizers and the threads that report them are at work.
        KEPT[:] = KEPT[-3:]
    if how == "fork" and round_ % 2:
        ends_in_time(bare(round_), LIMIT[how])
    else:
        started = multiprocessing.get_context(how).Process(target=child, args=(how, round_))
        started.start()
        started.join(LIMIT[how])
        if started.exitcode is None:
            os.kill(started.pid, signal.SIGABRT)
        assert started.exitcode == 0, f"{how}: a child ended with {started.exitcode}"
    # The parent goes on: the child ended nothing of it.
    assert ray.get(KEPT[-1])[1] == 19
    KEPT.clear()


def pools(how: str) -> None:
    with multiprocessing.get_context(how).Pool(3) as pool:
        assert pool.map(abs, range(-9, 0)) == list(range(9, 0, -1))


if __name__ == "__main__":
    import faulthandler

    faulthandler.enable()
    rounds, ways = int(sys.argv[1]), sys.argv[2:] or ["fork", "spawn", "forkserver"]
    with rms.initialize_scheduler_environment():
        for how in ways:
            for round_ in range(rounds):
                one_round(how, round_)
                print(how, round_, flush=True)
            KEPT[:] = work(0)
            pools(how)
    print("all is well", flush=True)
