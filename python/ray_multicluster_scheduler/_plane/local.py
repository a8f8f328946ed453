"""This user's control plane for one configuration, shared by all programs on this machine.

    ~/.ray_scheduler/planes/<hash>/    one folder for each configuration
        plane.json                     where it is; written by the control plane while it serves
        own-token                      the token of this user's programs; it accepts no others
        plane.log, plane.log.1         what it said, and what it said before
        start.lock                     held by the program that starts or replaces it
        state.db, packages/, …         its own: docs/operating.md

It outlives the program that started it, and exits when it has been idle for a while. The next
request starts it again, with everything as it was. Until it exits it keeps the environment of the
program that started it, with its `SCHEDULER_*` settings and token variables.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import signal
import subprocess
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .. import _env, _settings
from .._version import __version__
from ..errors import ConfigurationError, ControlPlaneError, SchedulerError
from . import binary, config
from .probe import who_answers

#: The program's name for the file, in a state directory.
OWN_TOKEN = "own-token"
IDLE = "10m"
START_TIMEOUT = 60.0
STOP_TIMEOUT = 20.0
#: A control plane that takes longer to identify itself counts as hung.
ANSWER_TIMEOUT = 5.0
LOG_LIMIT = 1 << 20


def attach(file: Path) -> tuple[str, str | None]:
    """Address and own token of the control plane for this configuration; starts or updates it if
    necessary.
    """
    found = LocalPlane(file).attach()
    return found.address, found.own_token


@dataclass(frozen=True)
class Running:
    """A control plane that answers."""

    address: str
    pid: int
    version: str
    config: Path
    #: What it keeps for this user; without it, the control plane may need no token.
    own_token: str | None = field(default=None, repr=False, compare=False)


class LocalPlane:
    """The control plane for `file`, whether it runs or not."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.folder = _root() / hashlib.sha256(os.fsencode(file)).hexdigest()[:16]
        self.log = self.folder / "plane.log"

    def attach(self) -> Running:
        """The running one; else a new one."""
        served = self._served_by_hand()
        if served is not None:
            return served
        self._check_folder()
        found = running(self.folder)
        if found is None or self._is_outdated(found):
            found = self._start_or_replace()
        return found

    def _served_by_hand(self) -> Running | None:
        """`ray-multicluster serve` for the same file. We must not replace it."""
        given = os.environ.get(_env.STATE_DIR)
        found = running(Path(given) if given else _home() / "state", only_for=self.file)
        if found is None:
            return None
        if binary.is_older(found.version, __version__):
            warnings.warn(
                f"the control plane at {found.address} (process {found.pid}) has version "
                f"{found.version}, this package {__version__}; restart it to bring it up to date",
                stacklevel=2,
            )
        return found

    def _is_outdated(self, found: Running) -> bool:
        try:
            return binary.is_older(found.version, binary.version(binary.find()))
        except ControlPlaneError:
            return False  # No program, so no newer version: keep the running one.

    def _start_or_replace(self) -> Running:
        program = binary.find()
        self._make_folder()
        with self._starting():
            # Another program may have been faster.
            found = running(self.folder)
            if found is not None and not self._is_outdated(found):
                return found
            if found is not None:
                self._end(found)
            return self._start(program)

    def _make_folder(self) -> None:
        root = self.folder.parent
        try:
            root.parent.mkdir(parents=True, exist_ok=True)
            for folder in (root, self.folder):
                folder.mkdir(mode=0o700, exist_ok=True)
            self.folder.chmod(0o700)
        except OSError as error:
            raise ControlPlaneError(
                f"cannot make {self.folder} for the control plane's state: {error.strerror}",
                hint=f"set {_env.PLANES_DIR} to a folder on a local disk that you may write to",
            ) from error

    def _check_folder(self) -> None:
        """A folder of another user could hold a control plane and a token of theirs."""
        with contextlib.suppress(OSError):
            if self.folder.stat().st_uid != os.getuid():
                raise ControlPlaneError(
                    f"{self.folder}, for your control plane, belongs to another user",
                    hint=f"set {_env.PLANES_DIR} to a folder that is yours alone",
                )

    @contextlib.contextmanager
    def _starting(self) -> Iterator[None]:
        """One program at a time, and one thread."""
        deadline = time.monotonic() + START_TIMEOUT + STOP_TIMEOUT
        with (self.folder / "start.lock").open("a") as lock:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise ControlPlaneError(
                            f"another program is starting the control plane for {self.file}, and "
                            "has not finished",
                            hint=f"its log: {self.log}; `fuser {lock.name}` names the program",
                        ) from None
                    time.sleep(0.05)
            try:
                yield
            finally:
                # Not left to close(): a process that was forked meanwhile also has the file open.
                fcntl.flock(lock, fcntl.LOCK_UN)

    def _start(self, program: Path) -> Running:
        began = time.monotonic()
        process, begin = self._spawn(program)
        while True:
            found = running(self.folder)
            if found is not None:
                _reap(process)
                return found
            code, waited = process.poll(), time.monotonic() - began
            if code is not None:
                said = self._said_since(begin)
                # A control plane that is exiting still has the folder; a hung one keeps it.
                if " is in use by " not in said or waited > STOP_TIMEOUT:
                    raise self._failure(said, code)
                time.sleep(0.3)
                process, begin = self._spawn(program)
            elif waited > START_TIMEOUT:
                _reap(process)
                raise ControlPlaneError(
                    f"the control plane for {self.file} (process {process.pid}) is not ready after "
                    f"{START_TIMEOUT:.0f} s; it said:\n{_indented(self._said_since(begin))}",
                    hint=f"it goes on starting: try again; its log: {self.log}",
                )
            time.sleep(0.02)

    def _spawn(self, program: Path) -> tuple[subprocess.Popen[bytes], int]:
        """The process, and where its output begins in the log."""
        with contextlib.suppress(FileNotFoundError):
            if self.log.stat().st_size > LOG_LIMIT:
                self.log.replace(self.log.with_name("plane.log.1"))
        command = [str(program), "serve", "--config", str(self.file)]
        command += ["--listen", "127.0.0.1:0", "--state-dir", str(self.folder)]
        # Other users of this machine can reach its address.
        command += ["--own-token"]
        command += ["--exit-when-idle", os.environ.get(_env.EXIT_WHEN_IDLE) or IDLE]
        others = {k: v for k, v in os.environ.items() if not k.startswith(_settings.PREFIX)}
        # This control plane is the user's own: it is no replica of another one.
        others.pop(_env.STORE, None)
        with self.log.open("ab") as log:
            begin = log.tell()
            try:
                process = subprocess.Popen(
                    command,
                    env={**others, **_settings.plane_environment(_settings.given())},
                    # No folder that could be unmounted, no terminal, no Ctrl-C.
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            except OSError as error:
                raise ControlPlaneError(
                    f"{program} cannot be run: {error.strerror}",
                    hint="is it built for this platform? Install the wheel again",
                ) from error
        return process, begin

    def _said_since(self, begin: int) -> str:
        with self.log.open("rb") as log:
            log.seek(max(begin, os.fstat(log.fileno()).st_size - 16_384))
            return log.read().decode("utf-8", "replace").strip()

    def _failure(self, said: str, code: int) -> SchedulerError:
        # The reader's own error, with line and caret.
        if said.startswith((f"error: {self.file}", f"error: {_settings.PREFIX}")):
            return ConfigurationError(said[len("error: ") :])
        return ControlPlaneError(
            f"the control plane for {self.file} could not be started (exit code {code}); it "
            f"printed:\n{_indented(said)}",
            hint=f"its log: {self.log}; {_env.PLANES_DIR} moves its state elsewhere",
        )

    def _end(self, found: Running) -> None:
        """Work on the clusters goes on, and the queue is kept."""
        if str(self.folder) not in _command_line(found.pid):
            raise ControlPlaneError(
                f"the control plane at {found.address} has the older version {found.version}, and "
                f"process {found.pid} does not look like it",
                hint="stop it by hand; the next program starts the new one",
            )
        os.kill(found.pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_TIMEOUT
        while running(self.folder) == found:
            if time.monotonic() > deadline:
                raise ControlPlaneError(
                    f"the control plane at {found.address} (process {found.pid}) has the older "
                    f"version {found.version} and does not end",
                    hint=f"its log: {self.log}",
                )
            time.sleep(0.05)


def running(folder: Path, only_for: Path | None = None) -> Running | None:
    """The control plane that uses this state directory, if it answers (and serves that file).

    AccessError: it answers, but refuses us. A second one beside it would not know its queue.
    """
    try:
        said = json.loads((folder / "plane.json").read_bytes())
        found = Running(
            str(said["address"]),
            int(said["pid"]),
            str(said["version"]),
            Path(said["config"]),
            _own_token(folder),
        )
        if only_for is not None and config.identity(found.config) != only_for:
            return None
        # A killed control plane leaves its plane.json; another program may have the port by now.
        os.kill(found.pid, 0)
        answer = who_answers(found.address, ANSWER_TIMEOUT, found.own_token)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if answer["version"] == found.version else None


def _own_token(folder: Path) -> str | None:
    try:
        return (folder / OWN_TOKEN).read_text().strip() or None
    except FileNotFoundError:
        return None


def _root() -> Path:
    given = os.environ.get(_env.PLANES_DIR)
    return Path(given).absolute() if given else _home() / "planes"


def _home() -> Path:
    return Path.home() / config.HOME_DIRECTORY


def _command_line(pid: int) -> str:
    """The command line of a process; empty if there is none."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        # Not Linux.
        command = ["ps", "-ww", "-o", "command=", "-p", str(pid)]
        with contextlib.suppress(OSError):
            return subprocess.run(command, capture_output=True, text=True).stdout
        return ""


def _reap(process: subprocess.Popen[bytes]) -> None:
    """A child without a wait stays as a zombie."""
    threading.Thread(target=process.wait, name="control plane", daemon=True).start()


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines()[-20:])
