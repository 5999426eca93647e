"""Inserts generated text between markers and leaves the rest of the file unchanged.

The file is edited as text, so that the hand-written parts keep their order and comments. Markers
are comments, of YAML (`# generated: Spec`, `# end of Spec`) or of Markdown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from textwrap import wrap
from typing import Any, Final

WIDTH: Final = 100
# YAML 1.1 reads these as booleans or null if they are unquoted.
_NOT_TEXT: Final = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null"])
_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9/_-]*")
_ANCHOR: Final = re.compile(r": &([\w-]+)$", re.MULTILINE)


class MissingMarker(ValueError):
    """The text lacks a marker, or the end of one."""


class Shared(dict[str, Any]):
    """A mapping that a YAML text contains once, under an anchor; equal mappings refer to it."""

    def __init__(self, anchor: str, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.anchor = anchor


def markers(text: str) -> list[str]:
    """Return the names of the markers in `text`, each once.

    Raises:
        MissingMarker: there is no marker at all.
    """
    found = re.findall(r"^ *(?:#|<!--) generated: (\S+)(?: -->)?$", text, re.MULTILINE)
    if not found:
        raise MissingMarker("the text has no place for a schema")
    return list(dict.fromkeys(found))


def place(text: str, name: str, schema: Mapping[str, Any]) -> str:
    """Return the YAML `text` with `schema` between the lines `# generated: <name>` and `# end of
    <name>`.

    References use anchors that the text before them defines.

    Raises:
        MissingMarker: the two lines do not appear exactly once, in that order.
    """
    start, _, indent = _between(text, name)
    anchors = set(_ANCHOR.findall(text[:start]))
    return place_lines(text, name, _block(schema, indent, anchors))


def place_lines(text: str, name: str, lines: Iterable[str]) -> str:
    """Return `text` with unchanged `lines` between the markers of `name`, see `place`."""
    start, end, _ = _between(text, name)
    return text[:start] + "".join(f"{line}\n" for line in lines) + text[end:]


def _between(text: str, name: str) -> tuple[int, int, int]:
    """Return start and end of the text between two markers, and their indentation."""
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
    """Yield the lines of a mapping; a short value is on its key's line."""
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
    """Return whether a text can be folded to lines of that width without loss."""
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
