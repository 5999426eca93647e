"""Places generated schemas between their markers in a YAML text, leaving the rest as it is.

The text is edited as text, so that what is written by hand keeps its order and comments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

WIDTH: Final = 100
# YAML 1.1 reads these as booleans or null when they stand unquoted.
_NOT_TEXT: Final = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null"])
_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9/_-]*")


class MissingMarker(ValueError):
    """The text has no place for a schema, or no end of it."""


def markers(text: str) -> list[str]:
    """Names of the schemas that `text` has a place for; none of them twice.

    Raises:
        MissingMarker: there is no place at all.
    """
    found = re.findall(r"^ *# generated: (\S+)$", text, re.MULTILINE)
    if not found:
        raise MissingMarker("the text has no place for a schema")
    return list(dict.fromkeys(found))


def place(text: str, name: str, schema: Mapping[str, Any]) -> str:
    """`text` with `schema` between the lines `# generated: <name>` and `# end of <name>`.

    Raises:
        MissingMarker: the two lines are not there exactly once, in that order.
    """
    pattern = re.compile(
        rf"^(?P<indent> *)# generated: {re.escape(name)}\n(?P<body>.*?)^ *# end of "
        rf"{re.escape(name)}$",
        re.MULTILINE | re.DOTALL,
    )
    found = list(pattern.finditer(text))
    if len(found) != 1:
        raise MissingMarker(f"expected one pair of markers for {name}, found {len(found)}")
    start, end = found[0].span("body")
    indent = len(found[0]["indent"])
    body = "".join(f"{line}\n" for line in _block(schema, indent))
    return text[:start] + body + text[end:]


def _block(node: Mapping[str, Any], indent: int) -> Iterator[str]:
    """Lines of a mapping; what fits on its key's line is written there."""
    for key, value in node.items():
        lead = f"{' ' * indent}{_scalar(key)}:"
        flow = f"{lead} {_flow(value)}"
        if isinstance(value, Mapping) and value and len(flow) > WIDTH:
            yield lead
            yield from _block(value, indent + 2)
        elif isinstance(value, list) and len(flow) > WIDTH:
            yield lead
            yield from (f"{' ' * indent}- {_flow(item)}" for item in value)
        else:
            yield flow


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
