"""The metrics and labels in an expression. A rough check: promtool is the parser."""

from __future__ import annotations

import re

from .plane import REPOSITORY

# Prometheus's own labels, of every target.
TARGET = {"job", "instance"}

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_VARIABLE = re.compile(r"\$\w+")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_SELECTOR = re.compile(r"\b([a-zA-Z_:][\w:]*)\s*\{([^}]*)\}")
_MATCHER = re.compile(r"([a-zA-Z_]\w*)\s*(?:=~|!~|!=|=)")
_RANGE = re.compile(r"\[[^\]]*\]|\boffset\s+\w+")
_WORD = re.compile(r"\b[a-zA-Z_:][\w:]*\b(?!\s*\()")
_KEYWORDS = {"and", "or", "unless", "by", "on", "bool", "ignoring", "without"}


def documented() -> dict[str, set[str]]:
    """Every metric of docs/metrics.md by the names Prometheus has for it, with its labels."""
    page = (REPOSITORY / "docs" / "metrics.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| ([^|]*) \|", page, re.MULTILINE)
    assert rows, "docs/metrics.md has no table of metrics"
    found: dict[str, set[str]] = {}
    for name, kind, cells in rows:
        labels = set(re.findall(r"`(\w+)`", cells))
        found[name] = labels
        if kind == "histogram":
            del found[name]
            found |= {f"{name}_count": labels, f"{name}_sum": labels}
            found[f"{name}_bucket"] = labels | {"le"}
    return found


def mistakes(expression: str, metrics: dict[str, set[str]]) -> list[str]:
    """Metrics that do not exist, and labels that the metrics of this expression do not have."""
    text = _VARIABLE.sub("0", _STRING.sub('""', expression))
    wrong: list[str] = []
    allowed: set[str] = set(TARGET)
    for name, matchers in _SELECTOR.findall(text):
        labels = metrics.get(name, set()) | TARGET
        wrong += [
            f"{name} has no {label}" for label in _MATCHER.findall(matchers) if label not in labels
        ]
    groupings = _GROUPING.findall(text)
    bare = _RANGE.sub("", _GROUPING.sub("", re.sub(r"\{[^}]*\}", "", text)))
    for name in _WORD.findall(bare):
        if name in metrics:
            allowed |= metrics[name]
        elif name not in _KEYWORDS:
            wrong.append(f"there is no metric {name}")
    for labels in groupings:
        wrong += [f"nothing here has {label}" for label in _names(labels) if label not in allowed]
    return wrong


def _names(labels: str) -> list[str]:
    return [label.strip() for label in labels.split(",") if label.strip()]
