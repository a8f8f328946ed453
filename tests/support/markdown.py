"""Our Markdown as a reader sees it: headings with their anchors, links, blocks of code."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator
from pathlib import Path

from .plane import REPOSITORY

# Built, installed or fetched: not ours.
_FOREIGN = {"target", ".venv", "node_modules", ".git"}

# The first folders of our paths.
_FOLDERS = ("crates/", "tests/", "docs/", "python/", "console/", "deploy/", "examples/", "scripts/")

# Prefixes that a page may leave out of a path, and the form of our paths.
_ROOTS = ("", "crates", "python/ray_multicluster_scheduler")
_PATH = re.compile(r"(?:[\w.-]+/)*[\w-]+(?:\.(?:rs|py|md|toml|ya?ml|tsx?|sql)|/)")

_FENCE = re.compile(r"^ *(`{3,}|~{3,})(.*)$")
_INLINE_CODE = re.compile(r"(`+)(.+?)\1")
_LINK = re.compile(r"\[[^\]]*\]\(([^()\s]+(?:\([^()\s]*\))?)\)")


def pages() -> list[Path]:
    """Every Markdown file of the repository."""
    found = sorted(REPOSITORY.rglob("*.md"))
    return [page for page in found if not _FOREIGN & set(page.relative_to(REPOSITORY).parts)]


def anchors(text: str) -> set[str]:
    """The valid `#…` anchors, as GitHub makes them from the headings."""
    seen: dict[str, int] = {}
    for line in _prose(text):
        if heading := re.match(r"#{1,6} +(.+?) *#*$", line):
            slug = _slug(heading[1])
            count = seen[slug] = seen.get(slug, -1) + 1
            if count:
                seen[f"{slug}-{count}"] = 0
    return set(seen)


def links(text: str) -> list[str]:
    """The targets of all links, code left out."""
    return [link for line in _prose(text) for link in _LINK.findall(_INLINE_CODE.sub("", line))]


def code_blocks(text: str) -> list[tuple[str, str]]:
    """(language, content) of each fenced block."""
    blocks: list[tuple[str, list[str]]] = []
    for fence, line, is_fence in _lines(text):
        if is_fence and fence is not None:
            blocks.append((line.strip().lstrip("`~").strip(), []))
        elif fence is not None:
            blocks[-1][1].append(line)
    return [(language, "\n".join(lines)) for language, lines in blocks]


def with_code(text: str, blocks: list[tuple[str, str]]) -> str:
    """The page with these blocks in place of its own."""
    lines: list[str] = []
    new = iter(blocks)
    for fence, line, is_fence in _lines(text):
        if is_fence and fence is not None:
            language, content = next(new)
            lines += [line[: line.index(fence)] + fence + language, *content.splitlines()]
        elif is_fence or fence is None:
            lines.append(line)
    return "\n".join(lines) + "\n"


def code_lines(text: str) -> list[tuple[int, str, str]]:
    """(number, language, line) of fenced blocks; a line continued with a backslash counts as one.
    Generated blocks are left out: the program wrote them."""
    found: list[tuple[int, str, str]] = []
    language, goes_on, is_generated = "", False, False
    for number, (fence, line, is_fence) in enumerate(_lines(text), start=1):
        if re.match(r"<!-- (begin|end)\b", line):
            is_generated = line.startswith("<!-- begin")
        elif is_fence:
            language, goes_on = line.strip().lstrip("`~").strip(), False
        elif fence is not None and not is_generated:
            before = found.pop() if goes_on else (number, language, "")
            goes_on = line.endswith("\\")
            found.append((*before[:2], f"{before[2]} {line.rstrip(chr(92)).strip()}".strip()))
    return found


def inline_code(text: str) -> list[str]:
    return [code for line in _prose(text) for _, code in _INLINE_CODE.findall(line)]


def levels(text: str) -> list[int]:
    """How deep each heading is, in order."""
    headings = (re.match(r"(#{1,6}) ", line) for line in _prose(text))
    return [len(heading[1]) for heading in headings if heading]


def named(text: str) -> list[str]:
    """The tests that a page names by their files, in order."""
    return [code for code in inline_code(text) if "::" in code]


def missing(text: str) -> list[str]:
    """The files and tests that a page names as `path` or `path::name`, and that do not exist."""
    return [code for code in inline_code(text) if not _is_there(code)]


def missing_paths(page: Path) -> list[str]:
    """The paths that a page names in backquotes and that do not exist: from the root, below
    `crates/` or the SDK, or anywhere in the page's own room."""
    return [code for code in inline_code(page.read_text()) if _is_missing(page, code)]


def _is_missing(page: Path, code: str) -> bool:
    if not _PATH.fullmatch(code) or code.split("/")[0] in _FOREIGN:
        return False
    if any((REPOSITORY / root / code).exists() for root in _ROOTS):
        return False
    return not any(f"/{path}".endswith(f"/{code.rstrip('/')}") for path in _paths(_room(page)))


def _room(page: Path) -> str:
    """`crates/core` for `crates/core/README.md`; for a page at the root, the whole repository."""
    parts = page.relative_to(REPOSITORY).parts[:-1]
    return "/".join(parts[: 2 if parts[:1] == ("crates",) else 1])


@functools.cache
def _paths(room: str) -> list[str]:
    """Every file and folder below a room, the room itself first."""
    found = [room]
    for folder, folders, files in os.walk(REPOSITORY / room):
        folders[:] = sorted(set(folders) - _FOREIGN)
        found += [str((Path(folder) / name).relative_to(REPOSITORY)) for name in folders + files]
    return found


def _is_there(code: str) -> bool:
    named = re.fullmatch(r"((?:[\w.-]+/)+[\w.-]*)(?:::(\w+))?", code)
    if named is None or not named[1].startswith(_FOLDERS):
        # A test of the suite may be named without its file, below the file's own name.
        return not re.fullmatch(r"test_\w+", code) or _defines(REPOSITORY / "tests", code)
    path = REPOSITORY / named[1]
    return path.exists() and (named[2] is None or _defines(path, named[2]))


def _defines(path: Path, name: str) -> bool:
    files = path.rglob("test_*.py") if path.is_dir() else [path]
    definition = re.compile(rf"\b(?:def|fn|class) {name}\b")
    return any(definition.search(file.read_text()) for file in files)


def broken_link(page: Path, target: str) -> str | None:
    """The problem with a link of `page`; None if there is none, or if it is external."""
    if re.match(r"[a-z][a-z+.-]*:", target):
        return None
    path, _, anchor = target.partition("#")
    file = (page.parent / path).resolve() if path else page
    if not file.exists():
        return f"{target}: there is no {file}"
    if anchor and anchor not in anchors(file.read_text()):
        return f"{target}: {file.name} has no such heading"
    return None


def _slug(heading: str) -> str:
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def _prose(text: str) -> Iterator[str]:
    return (line for fence, line, is_fence in _lines(text) if fence is None and not is_fence)


def _lines(text: str) -> Iterator[tuple[str | None, str, bool]]:
    """(the fence it is within, the line, whether it is a fence itself)."""
    fence: str | None = None
    for line in text.splitlines():
        match = _FENCE.match(line)
        if match and fence is None:
            fence = match[1]
            yield fence, line, True
        elif match and fence and match[1].startswith(fence) and not match[2].strip():
            fence = None
            yield None, line, True
        else:
            yield fence, line, False
