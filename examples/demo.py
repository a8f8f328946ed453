"""`make demo`: two Ray clusters on this machine, the quant example on both, and why.

Everything happens in target/demo, which serves as the home directory of a laptop, and on 127.0.0.1.
All started processes are ended, even after Ctrl-C.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

REPOSITORY = Path(__file__).absolute().parent.parent
BINARY = REPOSITORY / "target" / "debug" / "ray-multicluster"
HOME = REPOSITORY / "target" / "demo"
SANDBOX = HOME / ".ray_scheduler" / "sandbox"
EXAMPLE = HOME / "project" / "quant_prediction"

# Before Ray and the SDK are imported, here and in child processes: another home, and none of the
# user's Ray settings.
for name in [name for name in os.environ if name.startswith(("RAY_", "SCHEDULER_"))]:
    del os.environ[name]
os.environ.update(
    HOME=str(HOME),
    PATH=f"{BINARY.parent}:{os.environ['PATH']}",
    PYTHONPATH=str(REPOSITORY / "python"),
    # The build packs that folder, and would do it again.
    PYTHONDONTWRITEBYTECODE="1",
    CLUSTER_CONFIG_FILE=str(SANDBOX / "cluster.yaml"),
    RAY_MULTICLUSTER_BIN=str(BINARY),
    NO_PROXY="127.0.0.1",
    no_proxy="127.0.0.1",
)
sys.path.insert(0, str(REPOSITORY / "python"))
sys.dont_write_bytecode = True

from ray_multicluster_scheduler import Scheduler, initialize_scheduler_environment  # noqa: E402
from ray_multicluster_scheduler._plane.local import running  # noqa: E402

COLOURS = re.compile(r"\033\[\d+m")
BOLD, DIM, PLAIN = ("\033[1m", "\033[2m", "\033[0m") if sys.stdout.isatty() else ("", "", "")


def main() -> int:
    signal.signal(signal.SIGTERM, leave)
    if HOME.exists():  # Left by a demo that was killed.
        clean_up()
        shutil.rmtree(HOME)
    try:
        say("Two Ray clusters on this machine, centos and mac, each with its own home directory")
        # The laptop's copy of the program. The clusters have their own: --project.
        shutil.copytree(
            REPOSITORY / "examples" / "quant_prediction",
            EXAMPLE,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
        run("ray-multicluster", "sandbox", "up", "--cpus", "16", "--project", EXAMPLE)
        say("The user's program submits two jobs by their paths on the laptop, and waits")
        run("python", EXAMPLE / "main.py")
        with initialize_scheduler_environment() as scheduler:
            show_decisions(scheduler)
            say("Ray's own command works for the whole pool, and follows the job to its end")
            submit_with_ray(scheduler.plane.address)
    except KeyboardInterrupt:
        say("Interrupted")
        return 1
    except subprocess.CalledProcessError as error:
        say(f"{error.cmd[0]} failed with exit code {error.returncode}")
        return 1
    finally:
        say("Ending the control plane and both clusters")
        clean_up()
    return 0


def show_decisions(scheduler: Scheduler) -> None:
    say("Which job went where, why, and what it printed")
    for job in reversed(scheduler.list_jobs()):
        print(f"  {BOLD}{job.id}{PLAIN}: {job.status} on {job.cluster}")
        decision = scheduler.plane.get(f"/v1/jobs/{job.id}/decisions")["items"][0]
        for verdict in decision["clusters"]:
            print(f"    {verdict['cluster']:7} {verdict.get('text') or verdict['verdict']}")
        for line in scheduler.get_job_logs(job.id).splitlines():
            if "\tINFO " not in line:  # Ray's own lines about its connection.
                print(f"      {DIM}{line.replace(str(HOME), '~')}{PLAIN}")


def submit_with_ray(address: str) -> None:
    # The control plane that the SDK started accepts only its user's own token.
    (token,) = HOME.glob(".ray_scheduler/planes/*/own-token")
    metadata = shlex.quote('{"multicluster.tags": "macos"}')
    command = (
        f"RAY_ADDRESS={address} RAY_AUTH_MODE=token "
        f"RAY_AUTH_TOKEN_PATH={shlex.quote(str(token))} \\\n"
        f"    ray job submit --metadata-json {metadata} -- printenv CLUSTER_FLAVOUR"
    )
    print(f"  {DIM}$ {command}{PLAIN}", flush=True)
    # Exactly as printed, in a shell that has none of our own settings.
    env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run(
        ["sh", "-c", command], env=env, text=True, capture_output=True, timeout=120
    )
    if done.returncode != 0:
        print(done.stdout, done.stderr)
    done.check_returncode()
    lines = [COLOURS.sub("", line).rpartition(" -- ")[2] for line in done.stdout.splitlines()]
    print("\n".join(f"    {line}" for line in lines[-6:] if line.strip("- ")))


def clean_up() -> None:
    """The clusters by the records of `sandbox up`, the control plane by its own notice."""
    if (SANDBOX / "sandbox.json").exists():
        # Not in our process group: a second Ctrl-C is for us, and must not leave half of it
        # running.
        subprocess.run([BINARY, "sandbox", "down"], start_new_session=True, check=False)
    for folder in HOME.glob(".ray_scheduler/planes/*"):
        plane = running(folder)
        if plane is not None:
            os.kill(plane.pid, signal.SIGTERM)
        deadline = time.monotonic() + 20
        while running(folder) is not None and time.monotonic() < deadline:
            time.sleep(0.05)


def run(*command: str | Path) -> None:
    shown = shlex.join(map(str, command)).replace(str(HOME), "~")
    print(f"  {DIM}$ {shown}{PLAIN}", flush=True)
    subprocess.run(command, check=True, cwd=HOME)


def say(text: str) -> None:
    print(f"\n{BOLD}{text}{PLAIN}", flush=True)


def leave(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
