"""The types of the control plane's answers agree with the document it serves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import requests

from ray_multicluster_scheduler._plane import wire
from support.user import User

#: Not in the document: events are open.
OPEN = {"JobEvent"}
TYPES = [
    kind
    for name, kind in vars(wire).items()
    if isinstance(kind, type) and kind.__module__ == wire.__name__ and name not in OPEN
]


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    user = User(tmp_path_factory.mktemp("wire"))
    try:
        address = user.serve(user.config())
        document = requests.get(f"{address}/v1/openapi.json", timeout=20).json()
        yield document["components"]["schemas"]
    finally:
        user.leave()


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_a_type_has_the_fields_of_the_document(kind: type, schemas: dict[str, Any]) -> None:
    properties, required = fields(schemas, schemas[kind.__name__])
    annotations = {
        name: getattr(given, "__forward_arg__", str(given))
        for name, given in kind.__annotations__.items()
    }
    assert set(annotations) <= set(properties)
    optional = {name for name, text in annotations.items() if text.startswith("NotRequired[")}
    assert set(annotations) - optional == set(annotations) & required


def fields(schemas: dict[str, Any], schema: dict[str, Any]) -> tuple[dict[str, Any], set[str]]:
    """The properties of a schema and the required ones, including those of its parts."""
    properties, required = dict(schema.get("properties", {})), set(schema.get("required", []))
    for part in schema.get("allOf", []):
        reference = part.get("$ref", "").rpartition("/")[2]
        more, always = fields(schemas, schemas[reference] if reference else part)
        properties.update(more)
        required |= always
    return properties, required
