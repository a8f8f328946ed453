"""Fake Ray clusters as one process: `crates/testkit/examples/fake_ray.rs`."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator

from support.plane import REPOSITORY

PROGRAM = REPOSITORY / "target/debug/examples/fake_ray"


@contextlib.contextmanager
def fake_clusters(count: int, cpus: int) -> Iterator[list[dict[str, str]]]:
    """As entries of `cluster.yaml`."""
    assert PROGRAM.is_file(), (
        f"the fake clusters are missing: {PROGRAM}\n"
        "hint: cargo build -p multicluster-testkit --example fake_ray"
    )
    process = subprocess.Popen(
        [str(PROGRAM), "--clusters", str(count), "--cpus", str(cpus), "--until-stdin-closes"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        url = process.stdout.readline().strip()
        yield [
            {"name": f"c{n}", "head_address": "127.0.0.1:1", "dashboard": f"{url}/c{n}"}
            for n in range(count)
        ]
    finally:
        process.stdin.close()
        process.wait(30)
