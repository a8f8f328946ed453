"""A really small Ray cluster: its head lives in a memory cgroup, as in a container.

Overload kills its own processes and never the machine. Ray inside sees the container's memory, as
under Kubernetes: Ray reports that memory, and its own monitor begins to kill by it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from . import processes
from .ray_cluster import RayCluster
from .waiting import wait_until

CGROUPS = Path("/sys/fs/cgroup")
CONTROLLER = CGROUPS / "memory"
# Its share of the processors while others compile: that of eight processes.
SHARES = 8 * 1024


def is_possible() -> bool:
    """Cgroup v1, and we may create one."""
    return (
        os.geteuid() == 0
        and (CONTROLLER / "memory.limit_in_bytes").exists()
        and shutil.which("unshare") is not None
    )


def is_removed(group: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        group.rmdir()
    return True


class SmallHead(RayCluster):
    """One node of `memory` bytes, head and drivers together."""

    def __init__(self, name: str, memory: int, num_cpus: int = 2):
        super().__init__(name, num_cpus)
        self._group = CONTROLLER / self.directory.name
        self._processors = CGROUPS / "cpu" / self.directory.name
        self._group.mkdir()
        self._processors.mkdir()
        (self._group / "memory.limit_in_bytes").write_text(str(memory))
        (self._processors / "cpu.shares").write_text(str(SHARES))

    def launcher(self) -> list[str]:
        """In a mount namespace that contains only this group."""
        script = (
            f"echo $$ > {self._processors}/cgroup.procs"
            f" && mount --bind {self._group} {CONTROLLER}"
            f" && echo $$ > {CONTROLLER}/cgroup.procs"
            ' && exec "$@"'
        )
        return ["unshare", "--mount", "sh", "-c", script, "sh"]

    def peak_bytes(self) -> int:
        """The most it ever used."""
        return int((self._group / "memory.max_usage_in_bytes").read_text())

    def kills(self) -> int:
        """How many of its processes the kernel killed for lack of memory."""
        lines = (self._group / "memory.oom_control").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))

    def is_alive(self) -> bool:
        """All processes of a head run; its dashboard may still be too busy to answer."""
        lines = [processes.command_line(pid) for pid in self.pids]
        parts = ("gcs_server", "raylet/raylet", "dashboard/dashboard.py")
        return all(any(part in line for line in lines) for part in parts)

    def remove(self) -> None:
        super().remove()
        for group in (self._group, self._processors):
            # The last process is dead, but may not be gone yet.
            wait_until(lambda group=group: is_removed(group), f"{group} is empty", timeout=10)
