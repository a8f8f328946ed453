"""Whether our program, or `ray job`, accepts a command line: the program itself decides."""

from __future__ import annotations

import functools
import itertools
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterator

from . import markdown
from .plane import binary

PROGRAM = "ray-multicluster"

# No server listens there: commands only find that there is no control plane.
_CLOSED = "http://127.0.0.1:9"
# These work on this machine, so they are only asked for help with the same arguments.
_LOCAL = ("serve", "sandbox", "config", "debug-dump", "mcp")
# Errors of an incomplete command, such as a name in a sentence.
_INCOMPLETE = re.compile(
    r"required arguments|requires a subcommand|a value is required for"
    r"|Missing argument|requires an argument"
)


def mistakes(line: str, *, whole: bool = False) -> list[str]:
    """Why `ray-multicluster COMMAND …` is refused before it does anything. A command in a sentence
    may be incomplete, a `whole` one may not."""
    words = _until_dots(shlex.split(line, comments=True)[1:])
    whole = whole and "…" not in line
    if any(word.startswith("--address") for word in words):
        words = shlex.split(re.sub(r"(--address)[= ]\S+", rf"\1={_CLOSED}", shlex.join(words)))
    # A token file with a given name would be written.
    if words and (words[0] in _LOCAL or (words[0] == "token" and "/" in shlex.join(words))):
        words.append("--help")
    said = _said(tuple(words))
    if not said or (_INCOMPLETE.search(said) and not whole):
        return []
    return [f"{line}: {said}"]


def ray_job_mistakes(line: str, *, whole: bool = False) -> list[str]:
    """The same for `ray job COMMAND …`, by Ray's own parser, which does nothing else here."""
    import click
    from ray.dashboard.modules.job.cli import job_cli_group

    words = _until_dots(shlex.split(line, comments=True)[2:])
    command = job_cli_group.get_command(click.Context(job_cli_group), words[0]) if words else None
    try:
        if command is not None:
            command.make_context(words[0], words[1:])
        elif words:
            raise click.UsageError(f"there is no {words[0]}")
    except click.UsageError as error:
        said = error.format_message()
        if (whole and "…" not in line) or not _INCOMPLETE.search(said):
            return [f"{line}: {said}"]
    return []


def in_blocks(text: str, program: str) -> Iterator[tuple[int, str, bool]]:
    """(line number, command, whether it is whole) of each call of a program in the fenced blocks of
    a page: in shell blocks, and wherever else it is named with one of its commands."""
    start = program.split()
    for number, language, line in markdown.code_lines(text):
        code, _, comment = re.sub(r"\$\{?\w+\}?", "x", line).partition(" #")
        for part in (code, *comment.split("`")):
            words = _words(part) if program in part else []
            for at in range(len(words)):
                if words[at : at + len(start)] != start:
                    continue
                command = list(itertools.takewhile(_is_no_operator, words[at:]))
                is_typed = language == "sh" and at == 0 and part is code
                if is_typed or set(command[len(start) :][:1]) & _commands(program):
                    yield number, shlex.join(command), part is code


def _is_no_operator(word: str) -> bool:
    return not re.fullmatch(r"[|&;()<>]+", word)


def _words(line: str) -> list[str]:
    """Split as by a shell."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:
        return line.split()


def _until_dots(words: list[str]) -> list[str]:
    dots = next((at for at, word in enumerate(words) if "…" in word), len(words))
    return words[:dots]


@functools.cache
def _commands(program: str) -> frozenset[str]:
    if program != PROGRAM:
        return frozenset({"submit", "status", "list", "logs", "stop", "delete"})
    said = _run("--help").stdout
    listed = re.search(r"^Commands:\n((?:  .*\n)+)", said, re.MULTILINE)
    assert listed, said
    return frozenset(re.findall(r"^  ([a-z-]+)", listed[1], re.MULTILINE))


@functools.cache
def _said(words: tuple[str, ...]) -> str:
    """Our program's objection; empty if it only lacks a control plane, a file or Ray."""
    answer = _run(*words)
    is_usage = answer.returncode == 2 and re.search("--help|unexpected argument", answer.stderr)
    return answer.stderr.partition("\n\n")[0].strip() if is_usage else ""


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as home:
        env = {"HOME": home, "PATH": home, "RAY_MULTICLUSTER_ADDRESS": _CLOSED}
        env["RAY_MULTICLUSTER_STATE_DIR"] = f"{home}/state"
        return subprocess.run(
            [str(binary()), *words],
            cwd=home,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
