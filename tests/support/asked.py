"""The program's side of support/ray_program.py; imports nothing that such a program does not."""

from __future__ import annotations

import json
import sys
import threading
import traceback
from typing import Any, Callable

#: Before each answer, because Ray prints lines of its own.
MARK = "==answer== "


def serve(functions: dict[str, Any]) -> None:
    """Calls the requested functions, each in a thread, until its input ends."""
    lock = threading.Lock()

    def answer(question: dict[str, Any]) -> None:
        said = {"id": question["id"]}
        try:
            function: Callable[..., Any] = functions[question["call"]]
            said["value"] = function(*question["arguments"])
        except BaseException:
            said["error"] = traceback.format_exc()
        with lock:
            print(MARK + json.dumps(said), flush=True)

    for line in sys.stdin:
        threading.Thread(target=answer, args=(json.loads(line),)).start()
