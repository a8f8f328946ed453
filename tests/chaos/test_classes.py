"""The list of promises names tests that exist."""

from __future__ import annotations

from chaos.classes import CLASSES
from support.plane import REPOSITORY


def test_every_promise_names_tests_that_exist() -> None:
    for _, tests in CLASSES:
        for where, name in tests:
            if where.endswith(".py"):
                files, line = [REPOSITORY / "tests" / where], f"def {name}("
            else:
                crate = where.removeprefix("multicluster-")
                files, line = (REPOSITORY / "crates" / crate).rglob("*.rs"), f"fn {name}("
            assert any(line in file.read_text() for file in files), (where, name)
