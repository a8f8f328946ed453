"""Fixtures: one PostgreSQL for the whole run, a database for each test or file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.postgres import Database, Postgres, a_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A test repairs what it broke."""
    with a_server() as server:
        yield server


@pytest.fixture
def database(postgres: Postgres) -> Iterator[Database]:
    one = postgres.database()
    yield one
    one.drop()
