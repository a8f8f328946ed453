"""A PostgreSQL server of the tests' own: `scripts/postgres` finds or installs the programs."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

from ray_multicluster_scheduler._sandbox import processes as sandbox

from . import ports, processes
from .disk import Disk
from .plane import REPOSITORY
from .shim import Shim
from .waiting import wait_until

SCRIPT = REPOSITORY / "scripts" / "postgres"
USER = "postgres"


class Postgres:
    """Starts with `start()`; port and data stay the same over `kill()` and `restart()`."""

    def __init__(self, options: str = "", disk: int = 0) -> None:
        """`disk`: on one of its own, of so many bytes."""
        # Short, for the path of a socket, and where the user `postgres` may enter.
        self.directory = Path(tempfile.mkdtemp(prefix="rmc-pg-", dir="/tmp"))
        self.port = ports.a_port()
        #: More settings of the server, as `-c name=value`.
        self.options = options
        self.disk = Disk(self.directory, disk) if disk else None
        self._script = [*(self.disk.enter if self.disk else []), str(SCRIPT)]
        #: Where its files are for us.
        self._files = self.disk.path if self.disk else self.directory
        # In a folder that the user `postgres` may enter, too.
        self._tools = Path(tempfile.mkdtemp(prefix="rmc-pg-", dir="/tmp"))
        self._tools.chmod(0o755)
        self.shim = Shim(self._tools)
        self._bin = Path(_output(str(SCRIPT), "bin").strip())
        self._frozen: list[int] = []

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def program(self, name: str) -> str:
        """A program of the server, or one of a client such as `psql`."""
        own = self._bin / name
        return str(own) if own.is_file() else name

    def start(self) -> Postgres:
        env = {**self.shim.env, "OPTIONS": self.options}
        _output(*self._script, "start", str(self.directory), str(self.port), **env)
        return self

    def stop(self) -> None:
        self.thaw()
        _output(*self._script, "stop", str(self.directory))

    def kill(self) -> None:
        """SIGKILL to all of it, as when the power fails, though the disk's cache survives."""
        self._frozen = []
        if pids := self.pids():
            processes.send(pids, signal.SIGKILL)
            wait_until(lambda: not any(map(processes.is_running, pids)), "PostgreSQL is dead")

    def restart(self) -> None:
        """After `kill` or `stop`."""
        # It is believed to be alive as long as a process has its number, a dead one or another.
        for left in (self._files / "data" / "postmaster.pid", *self._files.glob(".s.PGSQL*")):
            left.unlink(missing_ok=True)
        self.start()

    def freeze(self) -> None:
        """SIGSTOP: connections are accepted and nothing is answered, as with a disk that hangs."""
        # Once it stands still, it starts no more.
        processes.send(self.pids()[:1], signal.SIGSTOP)
        self._frozen = self.pids()
        processes.send(self._frozen, signal.SIGSTOP)

    def thaw(self) -> None:
        processes.send(reversed(self._frozen), signal.SIGCONT)
        self._frozen = []

    def pids(self) -> list[int]:
        """The first process, and then those it started."""
        try:
            first = int((self._files / "data" / "postmaster.pid").read_text().split()[0])
        except (FileNotFoundError, IndexError):
            return []
        if not processes.is_running(first):
            return []
        family = sandbox.with_children({first}, sandbox.everything())
        return [first, *sorted(set(family) - {first})]

    def sql(self, text: str, database: str = "postgres", timeout: float = 20) -> list[list[str]]:
        """The rows of a query."""
        address = f"postgres://postgres@{self.host}/{database}"
        command = [self.program("psql"), "--no-psqlrc", "-qAt", "-F", "\t", "-v", "ON_ERROR_STOP=1"]
        done = subprocess.run(
            [*command, "-d", address, "-c", text],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert done.returncode == 0, f"{text}: {done.stderr}"
        return [line.split("\t") for line in done.stdout.splitlines()]

    def database(self) -> Database:
        """A new one."""
        name = f"t{uuid.uuid4().hex[:10]}"
        self.sql(f"CREATE DATABASE {name}")
        return Database(self, name)

    def standby(self) -> Postgres:
        """Another server that follows this one, until it is promoted."""
        other = Postgres(self.options)
        host, _, port = self.host.rpartition(":")
        copy = [self.program("pg_basebackup"), "-h", host, "-p", port, "-U", USER]
        copy += ["-D", str(other.directory / "data"), "-R", "-X", "stream", "--checkpoint=fast"]
        if os.geteuid() == 0:
            shutil.chown(other.directory, USER)
        subprocess.run(copy, check=True, timeout=120, user=server_user(), cwd=other.directory)
        return other.start()

    def promote(self) -> None:
        """Of a standby: it takes commits now."""
        assert self.sql("SELECT pg_promote(true, 60)") == [["t"]]

    def remove(self) -> None:
        """Ends it, and removes its data."""
        self.thaw()
        self.kill()
        if self.disk:
            self.disk.close()
        for folder in (self.directory, self._tools):
            shutil.rmtree(folder, ignore_errors=True)


class Database:
    """One database of a server."""

    def __init__(self, server: Postgres, name: str) -> None:
        self.server = server
        self.name = name

    def url(self, host: str | None = None) -> str:
        """For `--store`; another host is a proxy."""
        return f"postgres://postgres@{host or self.server.host}/{self.name}"

    def sql(self, text: str, timeout: float = 20) -> list[list[str]]:
        return self.server.sql(text, self.name, timeout)

    def epoch(self) -> int:
        """How often somebody took the lead."""
        return int(self.sql("SELECT epoch FROM multicluster.lead")[0][0])

    def terminate(self, only: str = "true") -> int:
        """Ends the sessions of replicas, or some of them; returns how many."""
        query = f"""
            SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = '{self.name}' AND pid <> pg_backend_pid() AND {only}"""
        return len(self.sql(query))

    def drop(self) -> None:
        with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
            self.server.sql(f"DROP DATABASE IF EXISTS {self.name} WITH (FORCE)")


@contextlib.contextmanager
def a_server(options: str = "", disk: int = 0) -> Iterator[Postgres]:
    server = Postgres(options, disk)
    try:
        yield server.start()
    finally:
        server.remove()


class Pooler:
    """PgBouncer in front of a server: a session of its clients is a transaction long."""

    def __init__(self, server: Postgres) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="rmc-pg-", dir="/tmp"))
        port = ports.a_port()
        self.host = f"127.0.0.1:{port}"
        config = self._directory / "pgbouncer.ini"
        config.write_text(f"""
[databases]
* = host=127.0.0.1 port={server.port} user={USER}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 10
logfile = {self._directory / "log"}
""")
        if os.geteuid() == 0:
            shutil.chown(self._directory, USER)
        program = _output(str(SCRIPT), "pooler").splitlines()[-1]
        self._process = subprocess.Popen(
            [program, "--quiet", str(config)], user=server_user(), cwd=self._directory
        )
        url = f"postgres://{USER}@{self.host}/postgres"
        ask = [server.program("psql"), "-qAt", "-d", url, "-c", "SELECT 1"]
        wait_until(lambda: subprocess.run(ask, timeout=5).returncode == 0, "PgBouncer answers")

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)


def server_user() -> str | None:
    """PostgreSQL refuses root; `scripts/postgres` makes this user."""
    return USER if os.geteuid() == 0 else None


def _output(*command: str, **env: str) -> str:
    """Without an open file of ours: the server would keep it."""
    with tempfile.TemporaryFile("w+") as out:
        done = subprocess.run(
            command,
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            timeout=600,
            check=False,
        )
        out.seek(0)
        text = out.read()
    assert done.returncode == 0, f"{' '.join(command)}: {text}"
    return text
