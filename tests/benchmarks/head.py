"""Many jobs to one small head, straight to Ray and through the control plane; `make head`.

Writes target/bench/head.json and prints a table. Takes half an hour: the cluster starts about one
job a second. JOBS, SECONDS, MEMORY (bytes) and SIDES (direct,plane) change what is run.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

os.environ["RAY_AUTH_MODE"] = "disabled"

from support import burst
from support.plane import Plane
from support.pool import Pool
from support.ray_cluster import remove_abandoned
from support.small_head import SmallHead

JOBS = int(os.environ.get("JOBS", "500"))
SECONDS = float(os.environ.get("SECONDS", "15"))
MEMORY = int(os.environ.get("MEMORY", str(2 << 30)))
SIDES = os.environ.get("SIDES", "direct,plane").split(",")
# Half an hour more than starting them one after the other takes.
TIMEOUT = 1800 + JOBS
RESULTS = Path(__file__).parents[2] / "target" / "bench" / "head.json"


def main() -> None:
    remove_abandoned()
    setup = {"jobs": JOBS, "driver_seconds": SECONDS, "head_mib": MEMORY >> 20}
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    # The other side's figures stay, if they have the same setup.
    is_same = all(known.get(key) == value for key, value in setup.items())
    figures: dict[str, Any] = known if is_same else {**setup}
    for side in SIDES:
        head = SmallHead("small", MEMORY)
        try:
            head.start()
            figures[side] = {"direct": directly, "plane": through_the_plane}[side](head)
        finally:
            head.remove()
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        RESULTS.write_text(json.dumps(figures, indent=2) + "\n")
    print_table(figures)


def directly(head: SmallHead) -> dict[str, Any]:
    jobs = [{"submission_id": f"job-{n}", "entrypoint": driver()} for n in range(JOBS)]
    send, states = lambda: burst.send_directly(head, jobs), lambda: burst.states_on(head)
    return burst.measure(head, send, states, TIMEOUT)


def through_the_plane(head: SmallHead) -> dict[str, Any]:
    jobs = [{"id": f"job-{n}", "entrypoint": driver()} for n in range(JOBS)]
    with tempfile.TemporaryDirectory(prefix="multicluster-head-") as directory:
        pool = Pool([head])
        # With the defaults, except the 40-second rule: 500 jobs would take five hours.
        pool.scheduler = {"submission_interval": 0}
        plane = Plane(Path(directory), pool)
        try:
            plane.start()
            plane.wait_healthy()
            send, states = lambda: burst.send_through(plane, jobs), lambda: burst.states_in(plane)
            return burst.measure(head, send, states, TIMEOUT)
        finally:
            plane.close()


def driver() -> str:
    return burst.DRIVER.format(seconds=SECONDS)


def print_table(figures: dict[str, Any]) -> None:
    sides = [side for side in ("direct", "plane") if side in figures]
    print(f"{figures['jobs']} drivers of {figures['driver_seconds']:g} s,", end=" ")
    print(f"a head of {figures['head_mib']} MiB")
    print(f"{'':18}", *(f"{side:>10}" for side in sides))
    for key in figures[sides[0]]:
        print(f"{key:18}", *(f"{figures[side][key]!s:>10}" for side in sides))


if __name__ == "__main__":
    main()
