"""`make demo`: the control plane above two real Ray clusters, used with Ray's own tools.

Starts two clusters on this machine, `centos` and `mac`, and the control plane; submits the quant
example to the pool with the stock `ray job submit`; shows where it ran and why; ends everything it
started.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
os.environ["RAY_AUTH_MODE"] = "disabled"

from support.plane import Plane
from support.pool import Pool
from support.ray_cluster import RayCluster, clean_environment, remove_abandoned
from support.waiting import wait_until

EXAMPLE = Path(__file__).parent.parent / "examples" / "quant"
COLOURS = re.compile(r"\033\[\d+m")
BOLD, DIM, PLAIN = ("\033[1m", "\033[2m", "\033[0m") if sys.stdout.isatty() else ("", "", "")


def main() -> int:
    remove_abandoned()
    clusters = [RayCluster("centos"), RayCluster("mac")]
    with tempfile.TemporaryDirectory(prefix="multicluster-demo-") as directory:
        # 15 s instead of 40 s: nobody wants to wait that long for a demo.
        plane = Plane(Path(directory), Pool(clusters, {"submission_interval": "15s"}))
        try:
            say("Starting two Ray clusters, centos and mac (about 20 s)")
            with ThreadPoolExecutor() as threads:
                list(threads.map(RayCluster.start, clusters))
            say("Starting the control plane above them")
            plane.start()
            plane.wait_healthy()
            show_clusters(plane)
            run(plane, Path(directory))
        finally:
            say("Ending the control plane and both clusters")
            plane.close()
            for cluster in clusters:
                cluster.remove()
    return 0


def run(plane: Plane, directory: Path) -> None:
    env = {**clean_environment(directory), "RAY_ADDRESS": plane.address}

    say("One job for the pool, by Ray's own command: it is followed to its end")
    options = ["--submission-id", "first", "--working-dir", str(EXAMPLE)]
    ray_job(["submit", *options, "--", "python", "predict.py"], env)
    say("Three more at once, by Ray's own client: one must run on a Mac, one prefers centos")
    for name, metadata in [
        ("on-a-mac", {"multicluster.tags": "macos"}),
        ("on-centos", {"multicluster.preferred_cluster": "centos"}),
        ("patient", {}),
    ]:
        print(f"  {DIM}client.submit_job(submission_id={name!r}, metadata={metadata}, …){PLAIN}")
        plane.client.submit_job(
            entrypoint="python predict.py --days 90",
            submission_id=name,
            metadata=metadata,
            runtime_env={"working_dir": str(EXAMPLE)},
        )
    say("The third is queued, and says what it waits for")

    def state(name: str) -> str:
        return plane.native_job(name)["state"]

    wait_until(lambda: state("on-centos") != "queued", "the second is on its way", 60)
    print(indent(plane.get("/v1/jobs/patient/explain")["summary"]))

    names = ["first", "on-a-mac", "on-centos", "patient"]
    ended = {"succeeded", "failed", "stopped"}
    wait_until(lambda: all(state(name) in ended for name in names), "all have ended", 180)
    say("Where they ran, and their last lines")
    for name in names:
        job = plane.native_job(name)
        print(f"  {BOLD}{name:10}{PLAIN} {job['state']} on {job['cluster']}")
        print(indent(plane.get(f"/v1/jobs/{name}/logs")["text"].strip().splitlines()[-1], 13))
        assert job["state"] == "succeeded", job
    say("Why the first went where it went")
    decision = plane.get("/v1/jobs/first/decisions")["items"][0]
    for verdict in decision["clusters"]:
        print(f"  {verdict['cluster']:10} {verdict.get('text') or verdict['verdict']}")


def show_clusters(plane: Plane) -> None:
    for cluster in plane.clusters():
        total, used = cluster["total"], cluster["used"]
        tags = ", ".join(cluster["tags"])
        cpus = f"{used.get('CPU', 0):g}/{total.get('CPU', 0):g} CPUs in use"
        print(f"  {cluster['name']:8} {cluster['health']['state']:8} {cpus}  [{tags}]")


def ray_job(arguments: list[str], env: dict[str, str]) -> None:
    print(f"  {DIM}$ RAY_ADDRESS={env['RAY_ADDRESS']} ray job {' '.join(arguments)}{PLAIN}")
    command = [sys.executable, "-m", "ray.scripts.scripts", "job", *arguments]
    done = subprocess.run(command, env=env, text=True, capture_output=True, timeout=180)
    if done.returncode != 0:
        raise SystemExit(f"ray job {arguments[0]} failed:\n{done.stdout}{done.stderr}")
    lines = (COLOURS.sub("", line).rsplit(" -- ", 1)[-1] for line in done.stdout.splitlines())
    print(indent("\n".join(line for line in lines if line.strip("-"))))


def say(text: str) -> None:
    print(f"\n{BOLD}{text}{PLAIN}", flush=True)


def indent(text: str, by: int = 4) -> str:
    return "\n".join(" " * by + line for line in text.splitlines())


if __name__ == "__main__":
    sys.exit(main())
