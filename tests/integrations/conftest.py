"""Collected by scripts/integrations only, which makes the environments."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from integrations.airflows import Airflow
from support.plane import Plane

collect_ignore_glob = [] if "INTEGRATIONS" in os.environ else ["test_*.py"]


@pytest.fixture(scope="module", params=[2, 3], ids=["airflow2", "airflow3"])
def airflow(
    request: pytest.FixtureRequest, plane: Plane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Airflow]:
    """A whole Airflow, its scheduler and triggerer running."""
    one = Airflow(request.param, tmp_path_factory.mktemp("airflow"), plane)
    try:
        one.start()
        yield one
    finally:
        one.close()
