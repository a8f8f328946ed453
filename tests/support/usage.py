"""Whether a command line is one that our program takes, by its own `--help`."""

from __future__ import annotations

import functools
import re
import shlex
import subprocess

from .plane import binary

PROGRAM = "ray-multicluster"


def mistakes(line: str) -> list[str]:
    """What is wrong with `ray-multicluster COMMAND …`: commands and flags that do not exist."""
    path: list[str] = []
    words = shlex.split(line, comments=True)[1:]
    while words and words[0] in _commands(tuple(path)):
        path.append(words.pop(0))
    if not path:
        return [f"{line}: there is no such command"]
    ours = words[: words.index("--")] if "--" in words else words
    flags = [word.partition("=")[0] for word in ours if re.match(r"--?[a-z]", word)]
    known = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", _help(tuple(path))))
    return [f"{line}: {' '.join(path)} has no {flag}" for flag in flags if flag not in known]


def _commands(path: tuple[str, ...]) -> set[str]:
    listed = re.search(r"^Commands:\n((?:  .*\n)+)", _help(path), re.MULTILINE)
    return set(re.findall(r"^  ([a-z-]+)", listed[1], re.MULTILINE)) if listed else set()


@functools.cache
def _help(path: tuple[str, ...]) -> str:
    answer = subprocess.run(
        [str(binary()), *path, "--help"], capture_output=True, text=True, timeout=30, check=True
    )
    return answer.stdout
