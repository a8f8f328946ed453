"""Our hooks for schemathesis, which runs in its own process: see test_openapi_fuzz.py."""

from __future__ import annotations

from typing import Any

import schemathesis
from requests import Response
from schemathesis import Case, CheckContext, GenerationMode, HookContext

# No server listens on the port for "discard".
NOBODY = "127.0.0.1:9"
KNOWN = {"id": "known-job", "name": "mac"}


@schemathesis.hook
def before_call(context: HookContext, case: Case, kwargs: dict[str, Any]) -> None:
    """Only 127.0.0.1 is contacted, no request waits long, and half of the names are known."""
    if case.operation.path.startswith("/v1/clusters") and isinstance(case.body, dict):
        for key, address in ("dashboard", f"http://{NOBODY}"), ("head_address", NOBODY):
            if isinstance(case.body.get(key), str):
                case.body[key] = address
    if is_positive(case):
        for name, known in KNOWN.items():
            if len(case.path_parameters.get(name, "")) % 2 and case.method != "DELETE":
                case.path_parameters[name] = known
        for parameter in case.operation.query:
            if parameter.name in {"wait", "timeout"}:
                case.query[parameter.name] = "10ms"
        if isinstance(case.body, dict):
            case.body = whole(case.body)


def whole(value: Any) -> Any:
    """For JSON Schema, unlike for others, 7.0 is an integer."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: whole(item) for name, item in value.items()}
    return [whole(item) for item in value] if isinstance(value, list) else value


@schemathesis.check
def what_fits_the_document_is_understood(
    ctx: CheckContext, response: Response, case: Case
) -> bool | None:
    """It may be refused, but not as unreadable."""
    if is_positive(case) and response.status_code == 400:
        assert response.json()["code"] not in {"bad_json", "bad_body", "bad_query", "bad_id"}, (
            f"fits the document, yet is answered {response.text}"
        )
    return None


def is_positive(case: Case) -> bool:
    return case.meta is not None and case.meta.generation.mode == GenerationMode.POSITIVE
