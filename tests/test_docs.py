"""The docs are consistent: links work, commands work, both languages match."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from support import markdown, usage
from support.plane import REPOSITORY

CHECKS = {usage.PROGRAM: usage.mistakes, "ray job": usage.ray_job_mistakes}
# Pages with tables of files and tests, and the heading of that column.
HEADINGS = ("here", "在这里")
NAMING = ("diagnosis.md", "design-map.md")
# The pages that describe where to change what.
MAPS = ("ARCHITECTURE.md", "CONTRIBUTING.md", "docs/design-map.md", "crates/", "python/ARCH")
AVOIDED = re.compile(r"\b(?:whoever|anew|shall)\b", re.IGNORECASE)
GENERATED = re.compile(r"<!-- (?:begin|metrics).*?<!-- end.*?-->", re.DOTALL)
PAGES = [str(page.relative_to(REPOSITORY)) for page in markdown.pages()]


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_somewhere(name: str) -> None:
    page = REPOSITORY / name
    broken = [markdown.broken_link(page, link) for link in markdown.links(page.read_text())]
    assert [what for what in broken if what] == []


@pytest.mark.parametrize("chinese", [name for name in PAGES if "zh" in name])
def test_a_chinese_page_has_the_parts_and_the_code_of_the_english_one(chinese: str) -> None:
    """With UPDATE_DOCS=1 the code is copied from the English page; people translate the text."""
    english = chinese.replace("zh/", "").replace(".zh.", ".")
    theirs, ours = ((REPOSITORY / name).read_text() for name in (chinese, english))
    assert markdown.levels(theirs) == markdown.levels(ours)
    code = markdown.code_blocks(ours)
    if os.environ.get("UPDATE_DOCS") and len(markdown.code_blocks(theirs)) == len(code):
        theirs = markdown.with_code(theirs, code)
        (REPOSITORY / chinese).write_text(theirs)
    assert markdown.code_blocks(theirs) == code
    assert markdown.named(theirs) == markdown.named(ours)


# The page that lists them, and pages that are older.
@pytest.mark.parametrize("name", sorted({*PAGES} - {"docs/style.md", "CHANGELOG.md"}))
def test_no_page_uses_words_that_the_style_avoids(name: str) -> None:
    written = GENERATED.sub("", (REPOSITORY / name).read_text())
    assert AVOIDED.findall(written) == [], "docs/style.md says what to write instead"


def test_every_page_of_the_docs_is_in_their_index() -> None:
    docs = REPOSITORY / "docs"
    linked = markdown.links((docs / "README.md").read_text())
    there = {str(page.relative_to(docs)) for page in docs.rglob("*.md")} - {"README.md"}
    assert there - {link.partition("#")[0] for link in linked} == set()


@pytest.mark.parametrize("name", [name for name in PAGES if name.endswith(NAMING)])
def test_every_file_and_test_that_a_page_names_is_there(name: str) -> None:
    text = (REPOSITORY / name).read_text()
    assert markdown.missing(text) == []


@pytest.mark.parametrize("name", [name for name in PAGES if name.startswith(MAPS)])
def test_every_path_that_a_map_of_the_code_names_is_there(name: str) -> None:
    assert markdown.missing_paths(REPOSITORY / name) == []


def test_a_path_that_is_not_there_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in ("crates/core/src/ledger.rs", "crates/store/src/batch.rs", "crates/core/README.md"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    monkeypatch.setattr(markdown, "REPOSITORY", tmp_path)
    markdown._paths.cache_clear()
    named = {
        "crates/core/src/ledger.rs": True,
        "store/src/batch.rs": True,
        "src/ledger.rs": True,
        "ledger.rs": True,
        "src/": True,
        "batch.rs": False,
        "core/src/legder.rs": False,
        "crates/cron/": False,
        "target/bench/core.toml": True,
        "http::native": True,
    }
    page = tmp_path / "crates/core/README.md"
    page.write_text("".join(f"`{code}` " for code in named))
    assert markdown.missing_paths(page) == [code for code, there in named.items() if not there]
    markdown._paths.cache_clear()


def test_a_file_or_test_that_is_not_there_is_found() -> None:
    named = [
        "crates/core/src/ledger.rs",
        "crates/core/src/legder.rs",
        "tests/test_docs.py::test_every_link_leads_somewhere",
        "tests/test_docs.py::test_every_link",
        "crates/core/src/breaker.rs::a_failed_probe_opens_it_again",
        "crates/core/src/breaker.rs::a_failed_probe",
        "test_every_link_leads_somewhere",
        "test_nothing",
        "192.168.5.2/x",
    ]
    assert markdown.missing("".join(f"`{code}` " for code in named)) == named[1:8:2]


@pytest.mark.parametrize("name", [name for name in PAGES if name.endswith("design-map.md")])
def test_every_line_of_the_users_design_has_a_place_and_a_test(name: str) -> None:
    text = (REPOSITORY / name).read_text()
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    lines = [row for row in rows if not row[0].startswith("---") and row[1] not in HEADINGS]
    assert len(lines) > 50
    assert [row[0] for row in lines if "`" not in row[1] or "::" not in row[2]] == []


# History was correct when it was written.
@pytest.mark.parametrize("name", [name for name in PAGES if name != "CHANGELOG.md"])
def test_every_command_in_the_docs_is_one_that_the_program_takes(name: str) -> None:
    """Run as written, without a control plane: only that may be missing."""
    text = (REPOSITORY / name).read_text()
    wrong = []
    for program, mistakes in CHECKS.items():
        named = [line.strip() for line in markdown.inline_code(text)]
        for line in named:
            wrong += mistakes(line) if line.startswith(f"{program} ") else []
        for number, line, whole in usage.in_blocks(text, program):
            wrong += [f"{name}:{number}: {what}" for what in mistakes(line, whole=whole)]
    assert wrong == []


@pytest.mark.parametrize(
    ("block", "wrong"),
    [
        ("ray-multicluster token create prometheus --role read", "unexpected argument"),
        ("docker run image && ray-multicluster token create", "required arguments"),
        ("ray-multicluster status  # or ray-multicluster jobs --al", "unexpected argument '--al'"),
        ("ray-multicluster stats", "unrecognized subcommand"),
        ("ray-multicluster \\\n  clusters cordon mac --nte why", "unexpected argument"),
        ("ray-multicluster serve --listn 127.0.0.1:1", "unexpected argument"),
        ("ray-multicluster what-if --needs many", "invalid value"),
        ("RAY_ADDRESS=http://x ray job submit --tag linux -- true", "No such option"),
        ("ray job logs --follow", "Missing argument"),
    ],
)
def test_a_command_that_the_program_refuses_is_found(block: str, wrong: str) -> None:
    text = f"```sh\n{block}\n```\n"
    found = [
        what
        for program, mistakes in CHECKS.items()
        for _, line, whole in usage.in_blocks(text, program)
        for what in mistakes(line, whole=whole)
    ]
    assert len(found) == 1
    assert wrong in found[0]
