"""Writes docs/compatibility.md from what the run found, if COMPAT_REPORT names it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from . import table
from .versions import ALL

#: What each test found, by version and test.
FOUND: dict[str, dict[str, table.Cell]] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    named = re.search(r"test_versions\.py::(\w+)\[(.+)\]$", report.nodeid)
    if named is None or (report.when != "call" and report.passed):
        return
    test, version = named.groups()
    FOUND.setdefault(version, {})[test] = table.Cell.of(report)


def pytest_sessionfinish() -> None:
    file = os.environ.get("COMPAT_REPORT")
    if file and len(FOUND) == len(ALL):
        page = Path(file)
        page.write_text(table.written_into(page.read_text(), FOUND))
