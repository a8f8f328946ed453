"""The words for a failure."""

from __future__ import annotations

from .progress import plain


def because(cause: str | None, exit_code: int | None, message: str | None) -> str:
    """The headline of a failure: why it failed, then what Ray said about it besides the log."""
    # Ray appends the log, which is shown below.
    status = (message or "").split(", last available logs", 1)[0].strip()
    if not cause:
        return f": {status}" if status else ""
    code = f"exit code {exit_code}"
    known = exit_code is None or code in cause or "killed by signal" in cause
    headline = f": {plain(cause)}" + ("" if known else f" ({code})")
    about_exit = status.startswith("Job entrypoint command failed with exit code")
    return headline if about_exit or status == cause else f"{headline}\n{status}"
