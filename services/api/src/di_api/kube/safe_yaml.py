"""YAML from a file of a user: bounded, and measured before its aliases are followed.

An alias stands for a whole part of the document. A few hundred bytes of them, each of a list of
the one before, stand for gigabytes as soon as they are written as JSON, compared or copied.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Final, NoReturn

import yaml

MOST_BYTES: Final = 4 * 1024 * 1024
"""Of a text, and of what it stands for: more than any API server takes."""
_DEEPEST: Final = 256
"""Levels of lists and maps. libyaml builds nodes by recursion without a bound: 40 KB of brackets
end the process."""
_OF_A_NODE: Final = 2
"""Bytes of a node beside its text: JSON has as many at least."""
# The loader of libyaml takes a tenth of the time; not every build has it.
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class BadYaml(ValueError):
    """A text that is no YAML, or stands for too much; the message has one line."""


def load_documents(text: str | bytes) -> list[Any]:
    """Read all documents of a text.

    Raises:
        BadYaml: it is no YAML, is too large, or its aliases make it so; nothing of the document
            was built then.
    """
    if len(text) > MOST_BYTES:
        raise BadYaml(f"larger than {MOST_BYTES} bytes")
    loader: Any = None
    try:
        if text.lstrip()[:1] in ("{", "[", b"{", b"["):
            # JSON has no aliases, and escapes that the loader of YAML does not know.
            with suppress(ValueError):
                return [json.loads(text, parse_constant=_no_json)]
        _check_levels(text)
        loader = _LOADER(text)
        found = []
        left = MOST_BYTES
        while loader.check_node():
            node = loader.get_node()
            left -= _Measure(left).of(node)
            found.append(loader.construct_document(node))
    except RecursionError as error:
        raise BadYaml("nested too deeply") from error
    except BadYaml:
        raise
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise BadYaml(" ".join(str(error).split())) from error
    finally:
        if loader is not None:
            loader.dispose()
    return found


def _check_levels(text: str | bytes) -> None:
    level = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            level += 1
            if level > _DEEPEST:
                raise BadYaml("nested too deeply")
        elif isinstance(event, yaml.CollectionEndEvent):
            level -= 1


def _no_json(constant: str) -> NoReturn:
    raise ValueError(constant)


class _Measure:
    """Bytes that a node stands for; each is looked at once, however many aliases name it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[int, int] = {}
        self._open: set[int] = set()

    def of(self, node: yaml.Node) -> int:
        """Return them. Raises BadYaml if there are too many."""
        key = id(node)
        if key in self._open:
            raise BadYaml(f"an alias stands for a part that it is in{_place(node)}")
        if (known := self._known.get(key)) is not None:
            return known
        self._open.add(key)
        total = _OF_A_NODE
        if isinstance(node, yaml.ScalarNode):
            total += len(node.value)
        elif isinstance(node, yaml.SequenceNode):
            total += sum(map(self.of, node.value))
        elif isinstance(node, yaml.MappingNode):
            total += sum(self.of(name) + self.of(value) for name, value in node.value)
        if total > self._most:
            raise BadYaml(f"its aliases stand for more than {MOST_BYTES} bytes{_place(node)}")
        self._open.discard(key)
        self._known[key] = total
        return total


def _place(node: yaml.Node) -> str:
    mark = node.start_mark
    return "" if mark is None else f" (line {mark.line + 1})"
