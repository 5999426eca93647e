"""Places what is generated between its markers in a text, leaving the rest as it is.

The text is edited as text, so that what is written by hand keeps its order and comments. Markers
are comments, of YAML (`# generated: Spec`, `# end of Spec`) or of Markdown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from textwrap import wrap
from typing import Any, Final

WIDTH: Final = 100
# YAML 1.1 reads these as booleans or null when they stand unquoted.
_NOT_TEXT: Final = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null"])
_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9/_-]*")
_ANCHOR: Final = re.compile(r": &([\w-]+)$", re.MULTILINE)


class MissingMarker(ValueError):
    """The text has no place for what is generated, or no end of it."""


class Shared(dict[str, Any]):
    """A mapping that a YAML text has once, under an anchor; equal ones refer to it."""

    def __init__(self, anchor: str, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.anchor = anchor


def markers(text: str) -> list[str]:
    """Names of what `text` has a place for; none of them twice.

    Raises:
        MissingMarker: there is no place at all.
    """
    found = re.findall(r"^ *(?:#|<!--) generated: (\S+)(?: -->)?$", text, re.MULTILINE)
    if not found:
        raise MissingMarker("the text has no place for a schema")
    return list(dict.fromkeys(found))


def place(text: str, name: str, schema: Mapping[str, Any]) -> str:
    """`text`, of YAML, with `schema` between the lines `# generated: <name>` and `# end of <name>`.

    Anchors that the text before them has already are referred to.

    Raises:
        MissingMarker: the two lines are not there exactly once, in that order.
    """
    start, _, indent = _between(text, name)
    anchors = set(_ANCHOR.findall(text[:start]))
    return place_lines(text, name, _block(schema, indent, anchors))


def place_lines(text: str, name: str, lines: Iterable[str]) -> str:
    """The same with whole lines, as they are."""
    start, end, _ = _between(text, name)
    return text[:start] + "".join(f"{line}\n" for line in lines) + text[end:]


def _between(text: str, name: str) -> tuple[int, int, int]:
    """Start and end of what is between two markers, and how far they are indented."""
    marker = re.escape(name)
    pattern = re.compile(
        rf"^(?P<indent> *)(?:# generated: {marker}|<!-- generated: {marker} -->)\n(?P<body>.*?)"
        rf"^ *(?:# end of {marker}|<!-- end of {marker} -->)$",
        re.MULTILINE | re.DOTALL,
    )
    found = list(pattern.finditer(text))
    if len(found) != 1:
        raise MissingMarker(f"expected one pair of markers for {name}, found {len(found)}")
    start, end = found[0].span("body")
    return start, end, len(found[0]["indent"])


def _block(node: Mapping[str, Any], indent: int, anchors: set[str]) -> Iterator[str]:
    """Lines of a mapping; what fits on its key's line is written there."""
    for key, value in node.items():
        lead = f"{' ' * indent}{_scalar(key)}:"
        if isinstance(value, Shared):
            if value.anchor in anchors:
                yield f"{lead} *{value.anchor}"
                continue
            anchors.add(value.anchor)
            yield f"{lead} &{value.anchor}"
            yield from _block(value, indent + 2, anchors)
            continue
        flow = f"{lead} {_flow(value)}"
        if len(flow) <= WIDTH or not value:
            yield flow
        elif isinstance(value, Mapping):
            yield lead
            yield from _block(value, indent + 2, anchors)
        elif isinstance(value, list):
            yield lead
            for item in value:
                yield from _item(item, indent, anchors)
        elif isinstance(value, str) and _is_prose(value, WIDTH - indent - 2):
            yield f"{lead} >-"
            margin = " " * (indent + 2)
            yield from (
                margin + line for line in wrap(value, WIDTH - indent - 2, break_on_hyphens=False)
            )
        else:
            yield flow


def _is_prose(text: str, width: int) -> bool:
    """Whether a text can be folded into lines of that width and is the same again."""
    words = text.split()
    return " ".join(words) == text and max(map(len, words)) <= width


def _item(item: object, indent: int, anchors: set[str]) -> Iterator[str]:
    flow = f"{' ' * indent}- {_flow(item)}"
    if not isinstance(item, Mapping) or len(flow) <= WIDTH:
        yield flow
        return
    first, *others = _block(item, indent + 2, anchors)
    yield f"{' ' * indent}- {first.lstrip(' ')}"
    yield from others


def _flow(node: object) -> str:
    if isinstance(node, Mapping):
        return "{" + ", ".join(f"{_scalar(k)}: {_flow(v)}" for k, v in node.items()) + "}"
    if isinstance(node, list):
        return "[" + ", ".join(_flow(item) for item in node) + "]"
    return _scalar(node)


def _scalar(value: object) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _NOT_TEXT:
        return value
    return json.dumps(value)
