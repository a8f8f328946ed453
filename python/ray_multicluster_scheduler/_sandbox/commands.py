"""`ray-multicluster sandbox up`, `down` and `status`.

The program has checked the options and passes them as JSON: ``command``, ``dir``, ``is_default``
(`dir` was not given), ``output``, and for `up` its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any, Callable

from . import pool, ports, processes, projects
from .cluster import Cluster
from .progress import Progress
from .state import Failed, Sandbox, State, make_dir, remove, write

NAMES = ("centos", "mac")
#: Short: Ray puts sockets below it, and a socket's path may have 103 characters.
TEMP_PREFIX = "/tmp/ray-sandbox-"
#: Ray's own limit is 30 s, which is not enough on a very busy machine. The second try is faster.
TOO_SLOW = "timed out during startup"
LOOK_EVERY = 0.2
Options = dict[str, Any]


def main(options: Options) -> int:
    """The exit code."""
    sandbox = Sandbox(Path(options["dir"]))
    try:
        {"up": up, "down": down, "status": status}[options["command"]](sandbox, options)
    except (Failed, OSError, KeyboardInterrupt) as error:
        print(f"error: {str(error) or 'interrupted'}", file=sys.stderr)
        return 1
    return 0


def up(sandbox: Sandbox, options: Options) -> None:
    """Starts the clusters that do not run, and waits until all accept jobs."""
    with sandbox.locked():
        state = sandbox.load()
        names = _names(options["names"], [cluster.name for cluster in state.clusters])
        before = {cluster.name: cluster for cluster in state.clusters}
        blocks = []
        for name in names:
            old = before.get(name)
            if old is None or not _is_running(sandbox, old):
                # Leftovers, such as a job's own process, are ended first. Then the cluster starts
                # in its old place, so that its addresses stay valid.
                if old is not None:
                    _end(sandbox, old)
                blocks.append(ports.claim(old.first_port if old else None))
                temp_dir = Path(TEMP_PREFIX + uuid.uuid4().hex[:8])
                token = sandbox.token(name)
                before[name] = Cluster(name, options["cpus"], blocks[-1].first, temp_dir, token)
        missing = [name for name in names if before[name] not in state.clusters]
        state.clusters = [before[name] for name in names]
        project = _link_project(sandbox, state, options["project"])
        # Before anything is started: whatever happens now, `down` knows where to look.
        sandbox.save(state)
        for name in missing:
            # Before the configuration that names the file: a control plane may be watching it.
            write(sandbox.token(name), secrets.token_urlsafe(32) + "\n")
        write(sandbox.config, pool.yaml(sandbox, state, project))
        try:
            with _interruptible():
                _start(sandbox, state, missing, Path(options["ray"]), options["timeout"])
        except BaseException:
            _undo(sandbox, state, missing)
            raise
        for block in blocks:
            block.close()
        _print(sandbox, state, options)
        if options["output"] == "table":
            _print_next(sandbox, options)


def down(sandbox: Sandbox, options: Options) -> None:
    """Ends the processes that `up` started, and only those."""
    with sandbox.locked():
        state = sandbox.load()
        ended = _end_all(sandbox, state.clusters)
        _forget(sandbox, state)
    names = [cluster.name for cluster in state.clusters]
    if options["output"] == "json":
        told = {"clusters": names, "dir": str(sandbox.directory), "processes": ended}
        print(json.dumps(told, ensure_ascii=False))
    elif names:
        print(f"{' and '.join(names)} down: ended {ended} processes")
    else:
        print(f"no sandbox in {sandbox.directory}")


def status(sandbox: Sandbox, options: Options) -> None:
    """Shows the clusters as they are now."""
    state = sandbox.load()
    _print(sandbox, state, options)
    if options["output"] == "table" and not state.clusters:
        print(f"no sandbox in {sandbox.directory}\nhint: ray-multicluster sandbox up")


# -- up


def _names(given: list[str], known: list[str]) -> list[str]:
    names = given or known or [*NAMES]
    for name in names:
        # A name is part of file names, too.
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}", name):
            shown = json.dumps(name, ensure_ascii=False)
            raise Failed(
                f"{shown} cannot be a cluster's name here\nhint: use letters, digits, - and _"
            )
        if names.count(name) > 1:
            raise Failed(f"{name} is given twice")
    for other in known:
        if other not in names:
            raise Failed(
                f"there is a sandbox with {other}, too\n"
                "hint: ray-multicluster sandbox down, then up again"
            )
    return names


def _link_project(sandbox: Sandbox, state: State, given: str | None) -> Path | None:
    """Links the project below every home; returns its place there."""
    project = Path(os.path.abspath(given)) if given else state.project or Path.cwd()
    if not project.is_dir():
        raise Failed(f"there is no folder {project}")
    home = os.environ.get("HOME")
    place = projects.place(project, Path(home) if home else None)
    state.project = None
    if place is None:
        return None
    for cluster in state.clusters:
        link = projects.link(project, sandbox.home(cluster.name), place)
        if link not in state.links:
            state.links.append(link)
    state.project = project
    return place


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C and SIGTERM end the block; afterwards nothing disturbs the cleanup."""

    def interrupt(number: int, _frame: FrameType | None) -> None:
        raise Failed("interrupted" if number == signal.SIGINT else "terminated")

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)


def _start(sandbox: Sandbox, state: State, missing: list[str], ray: Path, timeout: int) -> None:
    """Starts the missing clusters, all at once, and waits until all are ready."""
    started = f"starting {' and '.join(missing)} (about 10 s)" if missing else "already up"
    print(started, file=sys.stderr, flush=True)
    with Progress(missing, timeout) as progress:
        _bring_up(sandbox, state, missing, ray, timeout, progress)


def _bring_up(
    sandbox: Sandbox, state: State, missing: list[str], ray: Path, timeout: int, progress: Progress
) -> None:
    may_try_again = set(missing)
    for cluster in state.clusters:
        if cluster.name in missing:
            _spawn(sandbox, cluster, ray)
    deadline = time.monotonic() + timeout
    waiting = list(state.clusters)
    while True:
        waiting = [cluster for cluster in waiting if not cluster.is_ready()]
        progress.show([cluster.name for cluster in waiting])
        if not waiting:
            return
        for cluster in waiting:
            if time.monotonic() > deadline:
                said = _last_words(sandbox, cluster)
                raise Failed(
                    f"{cluster.name} does not accept jobs after {timeout} s:\n{said}\nhint: only "
                    '"ray[default]" has a dashboard; a busy machine may need a longer --timeout'
                )
            if not _is_running(sandbox, cluster):
                # Read now: its last words may be its latest.
                said = _last_words(sandbox, cluster)
                if cluster.name not in may_try_again or TOO_SLOW not in said:
                    raise Failed(f"`ray start` for {cluster.name} ended:\n{said}")
                may_try_again.discard(cluster.name)
                _end(sandbox, cluster)
                _spawn(sandbox, cluster, ray)
        time.sleep(LOOK_EVERY)


def _spawn(sandbox: Sandbox, cluster: Cluster, ray: Path) -> None:
    """One `ray start --block` in its own session, with its own ports, home and temporary directory.
    It outlives this process."""
    record, home = sandbox.record(cluster.name), sandbox.home(cluster.name)
    remove(record)
    # Without its parents: if it exists, it is not ours.
    cluster.temp_dir.mkdir(mode=0o700)
    make_dir(home)

    def write_down() -> None:
        """In the new process: the record exists before any process of Ray does, whatever happens to
        us. The session of the cluster has the number of this process."""
        me = processes.find(os.getpid())
        write(record, me._asdict() if me else {})

    # No workers before there is work, to spare the laptop.
    env = {**cluster.environment(ray, home), "RAY_enable_worker_prestart": "false"}
    with open(sandbox.log(cluster.name), "wb") as log:
        # No other thread runs in this process, so `preexec_fn` is safe.
        subprocess.Popen(
            [str(ray), *cluster.start_head(temp_dir=cluster.temp_dir), "--block"],
            env=env,
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=write_down,
        )


def _last_words(sandbox: Sandbox, cluster: Cluster) -> str:
    """The end of the output of `ray start`."""
    log = sandbox.log(cluster.name)
    text = log.read_text(errors="replace") if log.exists() else ""
    lines = [f"  {line}\n" for line in text.splitlines() if line.strip()]
    return f"{''.join(lines[-8:])}hint: all of it is in {log}"


def _undo(sandbox: Sandbox, state: State, missing: list[str]) -> None:
    """Ends what was started just now. Clusters that ran before are left alone; without any, the
    state is removed."""
    if not missing:
        return
    print(f"ending {' and '.join(missing)} again", file=sys.stderr, flush=True)
    try:
        _end_all(sandbox, [cluster for cluster in state.clusters if cluster.name in missing])
        if len(missing) == len(state.clusters):
            _forget(sandbox, state)
    except (Failed, OSError) as error:
        print(f"error: {error}\nhint: ray-multicluster sandbox down", file=sys.stderr)


def _print_next(sandbox: Sandbox, options: Options) -> None:
    where = "" if options["is_default"] else f" --dir {shlex.quote(str(sandbox.directory))}"
    print(
        f"""
What next:
  export CLUSTER_CONFIG_FILE={shlex.quote(str(sandbox.config))}
  python your_program.py            # the Python SDK starts the control plane by itself
  ray-multicluster serve            # or start it, for `ray job submit` and the API
  ray-multicluster sandbox down{where}"""
    )


# -- down


def _end_all(sandbox: Sandbox, clusters: list[Cluster]) -> int:
    """All at once: each may take its time. Returns how many processes there were."""
    with ThreadPoolExecutor(max_workers=max(len(clusters), 1)) as threads:
        return sum(threads.map(lambda cluster: _end(sandbox, cluster), clusters))


def _end(sandbox: Sandbox, cluster: Cluster) -> int:
    """Ends all processes on it and removes its files, except its log and its home."""
    try:
        ended = cluster.family(sandbox.first_process(cluster.name)).end()
    except OSError as error:
        raise Failed(f"{cluster.name}: {error}") from error
    # Only a name that we would give; we must not follow a link there.
    temp_dir = cluster.temp_dir
    if str(temp_dir).startswith(TEMP_PREFIX) and temp_dir.is_dir() and not temp_dir.is_symlink():
        shutil.rmtree(temp_dir)
    remove(sandbox.record(cluster.name))
    return ended


def _forget(sandbox: Sandbox, state: State) -> None:
    """Removes the files that `up` wrote, but keeps files that jobs left in the homes."""
    for link in state.links:
        projects.unlink(link, sandbox.directory)
    for cluster in state.clusters:
        remove(sandbox.token(cluster.name))
        # Stays if it is not empty.
        with contextlib.suppress(OSError):
            sandbox.home(cluster.name).rmdir()
    sandbox.forget()


# -- status


def _print(sandbox: Sandbox, state: State, options: Options) -> None:
    rows = [_row(sandbox, cluster) for cluster in state.clusters]
    if options["output"] == "json":
        config = str(sandbox.config) if sandbox.config.is_file() else None
        told = {"dir": str(sandbox.directory), "config": config, "clusters": rows}
        print(json.dumps(told, indent=2, ensure_ascii=False))
        return
    line: Callable[..., str] = "{:<10} {:<7} {:>8} {:>5}  {:<23} {}".format
    if rows:
        print(line("CLUSTER", "STATE", "PID", "CPUS", "DASHBOARD", "HOME"))
    for row in rows:
        pid = row["pid"] or "-"
        print(line(row["name"], row["state"], pid, row["cpus"], row["dashboard"], row["home"]))


def _row(sandbox: Sandbox, cluster: Cluster) -> dict[str, Any]:
    leader = sandbox.first_process(cluster.name)
    is_running = leader is not None and leader.is_running()
    # Silent: it runs, and does not answer (yet).
    state = ("up" if cluster.is_ready() else "silent") if is_running else "down"
    return {
        "name": cluster.name,
        "state": state,
        "pid": leader.pid if leader is not None and is_running else None,
        "processes": len(cluster.family(leader).members()),
        "cpus": cluster.cpus,
        "dashboard": cluster.dashboard,
        "head_address": cluster.head_address,
        "home": str(sandbox.home(cluster.name)),
        "log": str(sandbox.log(cluster.name)),
        "token_file": str(cluster.token_file) if cluster.token_file else None,
        "temp_dir": str(cluster.temp_dir),
    }


def _is_running(sandbox: Sandbox, cluster: Cluster) -> bool:
    leader = sandbox.first_process(cluster.name)
    return leader is not None and leader.is_running()
