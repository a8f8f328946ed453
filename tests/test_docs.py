"""The docs hold together: links lead somewhere, commands exist, both READMEs say the same."""

from __future__ import annotations

import functools
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from support import markdown
from support.plane import REPOSITORY, binary

PAGES = [str(page.relative_to(REPOSITORY)) for page in markdown.pages()]


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_somewhere(name: str) -> None:
    page = REPOSITORY / name
    broken = [markdown.broken_link(page, link) for link in markdown.links(page.read_text())]
    assert [what for what in broken if what] == []


def test_both_readmes_show_the_same_commands_and_answers() -> None:
    english = markdown.code_blocks((REPOSITORY / "README.md").read_text())
    chinese = markdown.code_blocks((REPOSITORY / "README.zh.md").read_text())
    assert chinese == english


def test_every_page_of_the_docs_is_in_their_index() -> None:
    linked = markdown.links((REPOSITORY / "docs" / "README.md").read_text())
    there = {page.name for page in (REPOSITORY / "docs").glob("*.md")} - {"README.md"}
    assert there - {link.partition("#")[0] for link in linked} == set()


@pytest.mark.parametrize("name", PAGES)
def test_every_command_in_the_docs_exists_with_its_flags(name: str) -> None:
    wrong = [what for line in commands(REPOSITORY / name) for what in mistakes(line)]
    assert wrong == []


def commands(page: Path) -> list[str]:
    """Everything on a page that begins with our program's name, to the end of the command."""
    text = page.read_text()
    lines = [
        line
        for language, block in markdown.code_blocks(text)
        if language == "sh"
        for line in block.replace("\\\n", " ").splitlines()
    ]
    named = [line.strip() for line in (*lines, *markdown.inline_code(text))]
    return [line for line in named if line.startswith("ray-multicluster ")]


def mistakes(line: str) -> list[str]:
    path: list[str] = []
    words = shlex.split(line, comments=True)[1:]
    while words and words[0] in subcommands(tuple(path)):
        path.append(words.pop(0))
    if not path and words:
        return [f"{line}: there is no command {words[0]}"]
    ours = words[: words.index("--")] if "--" in words else words
    flags = [word.partition("=")[0] for word in ours if re.match(r"--?[a-z]", word)]
    known = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", usage(tuple(path))))
    return [f"{line}: {' '.join(path)} has no {flag}" for flag in flags if flag not in known]


def subcommands(path: tuple[str, ...]) -> set[str]:
    _, found, listed = usage(path).partition("\nCommands:\n")
    return set(re.findall(r"^  ([a-z-]+)\b", listed, re.MULTILINE)) if found else set()


@functools.cache
def usage(path: tuple[str, ...]) -> str:
    answer = subprocess.run(
        [str(binary()), *path, "--help"], capture_output=True, text=True, timeout=30, check=True
    )
    return answer.stdout
