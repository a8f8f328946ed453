"""What the compiler does not see: paths, system calls and tools that only Linux has.

`make lint` compiles the program for macOS (`scripts/check-macos`). These tests read the sources, so
that a new use of /proc comes with another way, or with a line in docs/install.md.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from support.plane import REPOSITORY

#: Only Linux has these.
LINUX = re.compile(
    r"""["'(]/(proc|sys)/ | ["']/proc["'] | /dev/shm | target_os\s*=\s*"linux" | os::linux
    | \bO_TMPFILE | \bprctl | \bpidfd | \binotify | \bcgroup | \bepoll\b
    | sys\.platform | sched_getaffinity | SO_PEERCRED | SOCK_CLOEXEC""",
    re.VERBOSE,
)
#: Where they are used on purpose, and what is used elsewhere.
KNOWN = {
    "crates/store/src/trust.rs": "the monotonic clock, which counts sleep on macOS",
    "crates/server/src/front/relay/forward.rs": "the keepalive ends silent connections",
    "crates/server/src/metrics/process.rs": "no memory and thread metrics: docs/install.md",
    "crates/server/src/process.rs": "a test that measures memory",
    "crates/server/src/engine/driver.rs": "a test that measures memory",
    "crates/server/src/engine/driver/turn.rs": "a test that measures memory",
    "python/ray_multicluster_scheduler/_plane/local.py": "ps",
    "python/ray_multicluster_scheduler/_sandbox/processes.py": "ps",
}
#: Crates that are made of Linux's own calls.
LINUX_CRATES = {"linux-raw-sys", "inotify", "inotify-sys", "procfs", "io-uring", "epoll", "prctl"}


def shipped() -> list[Path]:
    """The sources of what users run: neither tests nor benchmarks."""
    rust = [
        path
        for path in REPOSITORY.glob("crates/*/src/**/*.rs")
        if "testkit" not in path.parts
        and not {"tests", "tests.rs", "soak", "soak.rs"} & set(path.parts)
    ]
    return rust + list((REPOSITORY / "python" / "ray_multicluster_scheduler").rglob("*.py"))


def code(path: Path) -> str:
    """Without comments, and in Rust without the tests at the end."""
    text = path.read_text()
    if path.suffix == ".rs":
        text = text.partition("#[cfg(test)]\nmod tests {")[0]
        return re.sub(r"//.*", "", text)
    return re.sub(r'"""[\s\S]*?"""|#.*', "", text)


def test_what_only_linux_has_is_used_where_there_is_another_way() -> None:
    sources = shipped()
    assert len(sources) > 200
    found = {str(p.relative_to(REPOSITORY)) for p in sources if LINUX.search(code(p))}
    assert found == set(KNOWN)


def test_no_crate_for_linux_is_needed_on_macos() -> None:
    command = ["cargo", "tree", "--locked", "--target", "aarch64-apple-darwin", "--edges=normal"]
    command += ["--prefix=none", "--format={lib}", "-p", "multicluster-cli"]
    tree = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=120)
    assert tree.returncode == 0, tree.stderr
    names = {line.replace("_", "-") for line in tree.stdout.splitlines()}
    assert "security-framework" in names, "the tree is that of macOS"
    assert not names & LINUX_CRATES


def test_scripts_work_with_the_bash_of_macos() -> None:
    """That is 3.2, with BSD's tools beside it."""
    newer = re.compile(
        r"declare -A|mapfile|readarray|\$\{\w+[,^]|&>>|\|&|coproc|wait -n"
        r"|readlink -f|sed -i |date -d|stat -c|\bgrep -P|\bnproc\b|\bsha256sum\b(?!.*shasum)"
    )
    for script in sorted((REPOSITORY / "scripts").iterdir()):
        lines = script.read_text().splitlines()
        bad = [line for line in lines if newer.search(line) and not line.lstrip().startswith("#")]
        assert not bad, f"{script.name}: {bad}"
