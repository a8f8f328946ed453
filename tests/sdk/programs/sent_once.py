"""Submits to `mac` over a connection that breaks after a call was sent; prints what is raised.

The test cuts the connection when this program prints so.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import ray

import ray_multicluster_scheduler as rms


def warm() -> str:
    return "warm"


class Model:
    def ping(self) -> str:
        return "here"


def note(folder: str, number: int, _: Any = None) -> None:
    with open(os.path.join(folder, f"call{number}"), "a") as file:
        print(os.environ["CLUSTER_FLAVOUR"], file=file)


class CutsTheConnection:
    """While it is pickled as an argument, before the call that it belongs to is sent."""

    def __init__(self, before: Path) -> None:
        self.before = before

    def __reduce__(self) -> Any:
        while not self.before.exists():
            time.sleep(0.05)
        say("cut")
        # So that this call finds the connection lost, and is not sent.
        time.sleep(20)
        return (str, ())


def say(word: str) -> None:
    print(word, flush=True)
    assert sys.stdin.readline() == "done\n"


def an_actor(name: str) -> None:
    # The class itself must be there already: its upload waits for an answer, too.
    _, first = rms.submit_actor(Model, preferred_cluster="mac")
    assert ray.get(first.ping.remote()) == "here"
    say("hold answers")
    with pytest.raises(rms.ClusterConnectionError) as caught:
        rms.submit_actor(Model, name=name, lifetime="detached", preferred_cluster="mac")
    told(caught.value)


def a_batch(folder: Path) -> None:
    calls = [(str(folder), 0), (str(folder), 1, CutsTheConnection(folder / "call0"))]
    with pytest.raises(rms.ClusterConnectionError) as caught:
        # So many CPUs that both calls share one placement.
        rms.submit_tasks(note, calls, num_cpus=3, preferred_cluster="mac", required=True)
    told(caught.value)


def told(error: rms.ClusterConnectionError) -> None:
    assert error.may_have_started, error
    assert error.cluster == "mac", error
    assert error.job_id, error
    print(f"raised: {error}".replace("\n", " "), flush=True)


if __name__ == "__main__":
    with rms.initialize_scheduler_environment():
        assert ray.get(rms.submit_task(warm, preferred_cluster="mac")[1]) == "warm"
        if sys.argv[1] == "actor":
            an_actor(sys.argv[2])
        else:
            a_batch(Path(sys.argv[2]))
    print("all is well", flush=True)
