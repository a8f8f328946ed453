"""The docs hold together: links lead somewhere, commands exist, both READMEs say the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import markdown, usage
from support.plane import REPOSITORY

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
    wrong = [what for line in commands(REPOSITORY / name) for what in usage.mistakes(line)]
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
    return [line for line in named if line.startswith(f"{usage.PROGRAM} ")]
