"""A fake Ray cluster as a process: `crates/testkit/examples/fake_ray.rs`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

from .plane import REPOSITORY


def binary() -> Path:
    path = Path(os.environ.get("FAKE_RAY_BIN") or REPOSITORY / "target/debug/examples/fake_ray")
    assert path.is_file(), (
        f"the fake dashboards are missing: {path}\n"
        "hint: cargo build -p multicluster-testkit --example fake_ray, or name it in FAKE_RAY_BIN"
    )
    return path


@contextmanager
def fake_cluster(name: str, *options: str) -> Iterator[SimpleNamespace]:
    """For a `Pool`. It ends with the block."""
    command = [str(binary()), "--until-stdin-closes", *options]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin
        assert process.stdout
        dashboard = process.stdout.readline().strip()
        yield SimpleNamespace(
            name=name, head_address="127.0.0.1:10001", dashboard=dashboard, token_file=None
        )
        process.stdin.close()
