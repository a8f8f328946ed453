"""A Ray cluster that is really small: its head lives in a memory cgroup, as in a container.

What overloads it kills its own processes and never the machine. Ray inside sees the container's
memory, as it does under Kubernetes: that is what it reports, and where its own monitor begins to
kill.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from pathlib import Path

from . import processes
from .ray_cluster import RayCluster

CONTROLLER = Path("/sys/fs/cgroup/memory")


def is_possible() -> bool:
    """Cgroup v1, and we may make one."""
    return (
        os.geteuid() == 0
        and (CONTROLLER / "memory.limit_in_bytes").exists()
        and shutil.which("unshare") is not None
    )


class SmallHead(RayCluster):
    """One node of `memory` bytes, head and drivers together."""

    def __init__(self, name: str, memory: int, num_cpus: int = 2):
        super().__init__(name, num_cpus)
        self._group = CONTROLLER / self.directory.name
        self._group.mkdir()
        (self._group / "memory.limit_in_bytes").write_text(str(memory))

    def launcher(self) -> list[str]:
        """In a mount namespace where the group is all there is."""
        script = (
            f"mount --bind {self._group} {CONTROLLER}"
            f" && echo $$ > {CONTROLLER}/cgroup.procs"
            ' && exec "$@"'
        )
        return ["unshare", "--mount", "sh", "-c", script, "sh"]

    def peak_bytes(self) -> int:
        """The most it ever used."""
        return int((self._group / "memory.max_usage_in_bytes").read_text())

    def kills(self) -> int:
        """How many of its processes the kernel killed for want of memory."""
        lines = (self._group / "memory.oom_control").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))

    def is_alive(self) -> bool:
        """All that makes a head a head runs; its dashboard may yet be too busy to answer."""
        lines = [processes.command_line(pid) for pid in self.pids]
        parts = ("gcs_server", "raylet/raylet", "dashboard/dashboard.py")
        return all(any(part in line for line in lines) for part in parts)

    def remove(self) -> None:
        super().remove()
        with contextlib.suppress(FileNotFoundError):
            for _ in range(50):
                with contextlib.suppress(OSError):
                    self._group.rmdir()
                    return
                time.sleep(0.1)  # The last process is dead, and not yet gone.
