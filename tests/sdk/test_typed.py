"""A user's program passes `mypy --strict` with the package as it is installed."""

from __future__ import annotations

import re
import subprocess
import sys
import venv
from pathlib import Path

from support.plane import REPOSITORY
from support.program import PROGRAMS

PROGRAM = PROGRAMS / "typed_user.py"
PACKAGE = REPOSITORY / "python" / "ray_multicluster_scheduler"


def test_a_users_program_is_type_checked(tmp_path: Path) -> None:
    # Installed: only then does mypy use py.typed and ignore this repository's settings.
    environment = tmp_path / "venv"
    venv.create(environment, symlinks=True)
    (site,) = environment.glob("lib/python*/site-packages")
    (site / PACKAGE.name).symlink_to(PACKAGE)
    source = PROGRAM.read_text()
    (tmp_path / PROGRAM.name).write_text(source)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-error-summary"]
    command += [f"--python-executable={environment}/bin/python", f"--cache-dir={tmp_path}/cache"]
    done = subprocess.run(
        [*command, PROGRAM.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    found = re.findall(r"^(\S+):(\d+): error: .* \[([a-z-]+)\]$", done.stdout, re.MULTILINE)
    expected = [
        (PROGRAM.name, str(number), match[1])
        for number, line in enumerate(source.splitlines(), 1)
        if (match := re.search(r"# expect: ([a-z-]+)$", line))
    ]
    assert found == expected, done.stdout + done.stderr
