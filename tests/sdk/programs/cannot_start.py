"""A job whose driver reserves the whole cluster, so that its tasks and actors have no room.

Ends when the given file exists.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import ray_multicluster_scheduler as rms


class Timed:
    """Standard error, with the times of its lines."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.said: list[tuple[float, str]] = []

    def write(self, text: str) -> int:
        self.said.append((time.monotonic(), text))
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Model:
    def infer(self, idx: int, split_name: str) -> str:
        return f"{split_name}-{idx}"


def load() -> None:
    pass


def main() -> None:
    sys.stderr = errors = Timed(sys.stderr)
    # A path on the submitter's machine; a job needs none.
    rms.initialize_scheduler_environment(config_file_path="/nowhere/cluster.yaml")
    asks = {"CPU": 1, "memory": 64 << 20}
    started = time.monotonic()
    kept = [
        rms.submit_actor(
            actor_class=Model, resource_requirements=asks, tags=["tradebot", "fund"], name=name
        )
        for name in ("hs300", "zz500")
    ]
    kept.append(rms.submit_task(load, name="load"))
    try:
        rms.submit_actor(Model, resource_requirements={"CPU": 1}, name="impatient", timeout=1)
    except rms.PlacementTimeoutError as error:
        print("refused:", json.dumps([error.message, error.cluster]), flush=True)
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.1)
    waits = [when - started for when, text in errors.said if "cannot start" in text]
    print("said after:", json.dumps(waits), flush=True)


if __name__ == "__main__":
    main()
