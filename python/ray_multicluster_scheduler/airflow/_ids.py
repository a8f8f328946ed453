"""The id of a task's job: the same for every try of the task, and for no other task."""

from __future__ import annotations

import hashlib
import json
import re

#: What the control plane accepts, in characters.
LONGEST = 128
#: Of the hash, in hexadecimal digits: with a million tasks, a collision has a chance of 1 in 500.
#: Two tasks that collide must also agree in all that is readable.
DIGITS = 12

_OTHERS = re.compile(r"[^A-Za-z0-9_.-]+")


def job_id(prefix: str, dag_id: str, task_id: str, run_id: str, map_index: int = -1) -> str:
    """Readable as far as there is room, and unique by a hash of the whole."""
    whole = json.dumps([prefix, dag_id, task_id, run_id, map_index])
    digest = hashlib.sha256(whole.encode()).hexdigest()[:DIGITS]
    index = f".{map_index}" if map_index >= 0 else ""
    end = f"{index}-{digest}"
    readable = ".".join(
        _OTHERS.sub("-", part).strip("-.") for part in (prefix, dag_id, task_id, run_id)
    )
    return readable[: LONGEST - len(end)] + end
