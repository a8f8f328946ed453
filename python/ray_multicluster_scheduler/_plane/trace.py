"""The submitting program's span: the trace of a job continues it."""

from __future__ import annotations

import os
import re
import sys

#: W3C Trace Context, version 00 or later.
TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}[!-~]{0,64}")


def headers() -> dict[str, str]:
    """The header ``traceparent``: OpenTelemetry's current span, else the variable ``TRACEPARENT``.

    OpenTelemetry is not imported here: a program that has a span has imported it.
    """
    given = _current_span() or os.environ.get("TRACEPARENT", "").strip()
    return {"traceparent": given} if TRACEPARENT.fullmatch(given) else {}


def _current_span() -> str | None:
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        return None
    context = api.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"
