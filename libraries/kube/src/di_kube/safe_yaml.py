"""Parser for YAML from users: bounded, measured before aliases are expanded, with the values of
JSON.

An alias stands for a whole part of the document. A few hundred bytes of nested aliases expand to
gigabytes when they are written as JSON, compared or copied.
"""

from __future__ import annotations

import json
import math
from contextlib import suppress
from typing import Any, ClassVar, Final, NoReturn

import yaml

MOST_BYTES: Final = 4 * 1024 * 1024
"""Maximum bytes of a text, and of its expansion: more than any API server accepts."""
_DEEPEST: Final = 256
"""Maximum nesting of lists and maps. libyaml recurses without a bound: 40 KB of brackets crash the
process.
"""
_OF_A_NODE: Final = 2
"""Bytes that a node counts besides its text: JSON needs at least as many."""
_LONGEST_NUMBER: Final = 400
"""Maximum length of a number in characters. Parsing a sexagesimal number takes quadratic time."""
_YAML: Final = "tag:yaml.org,2002:"
_OF_JSON: Final = ("null", "bool", "int", "float", "str", "seq", "map")
_OTHER_KEYS: Final = frozenset(f"{_YAML}{name}" for name in ("null", "bool", "int", "float"))
# libyaml's loader takes a tenth of the time; not every build has it.
_FASTEST: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class BadYaml(ValueError):
    """The text is not YAML, or expands to too much; the message has one line."""


class _Loader(_FASTEST):  # type: ignore[misc]  # which of the two is known when it runs
    """A loader that builds only JSON values, as kubectl does: dates and keys are strings."""

    yaml_constructors: ClassVar[dict[str | None, Any]] = {
        tag: build
        for tag, build in _FASTEST.yaml_constructors.items()
        if tag is None or tag.removeprefix(_YAML) in _OF_JSON
    }
    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, Any]]]] = {
        first: [(tag, pattern) for tag, pattern in found if tag != f"{_YAML}timestamp"]
        for first, found in _FASTEST.yaml_implicit_resolvers.items()
    }

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        node.value = [(_as_text(key), value) for key, value in node.value]
        super().flatten_mapping(node)

    def number(self, node: yaml.ScalarNode) -> int | float:
        text = self.construct_scalar(node)
        if len(text) > _LONGEST_NUMBER:
            raise BadYaml(f"a number of {len(text)} characters{_place(node)}")
        found: int | float = _FASTEST.yaml_constructors[node.tag](self, node)
        if not math.isfinite(found):
            raise BadYaml(f"{text} is no number that JSON has{_place(node)}")
        return found


def _as_text(key: yaml.Node) -> yaml.Node:
    """Return a key as a string, as written."""
    if not isinstance(key, yaml.ScalarNode) or key.tag not in _OTHER_KEYS:
        return key
    return yaml.ScalarNode(f"{_YAML}str", key.value, key.start_mark, key.end_mark)


_Loader.add_constructor(f"{_YAML}int", _Loader.number)
_Loader.add_constructor(f"{_YAML}float", _Loader.number)


def load_documents(text: str | bytes, *, most: int = MOST_BYTES) -> list[Any]:
    """Parse all documents of a text.

    Args:
        most: maximum bytes of the text, and of its expansion.

    Raises:
        BadYaml: it is not YAML, or too large with or without its aliases; nothing of the document
            was built.
    """
    if len(text) > most:
        raise BadYaml(f"larger than {most} bytes")
    loader: Any = None
    try:
        if text.lstrip()[:1] in ("{", "[", b"{", b"["):
            # JSON has no aliases, and has escapes that the YAML loader does not support.
            with suppress(ValueError):
                found = json.loads(text, parse_float=_finite, parse_constant=_no_json)
                # A lone surrogate cannot be encoded and sent.
                json.dumps(found, ensure_ascii=False).encode()
                return [found]
        _check_levels(text)
        loader = _Loader(text)
        documents = []
        left = most
        while loader.check_node():
            node = loader.get_node()
            left -= _Measure(left, most).of(node)
            documents.append(loader.construct_document(node))
    except RecursionError as error:
        raise BadYaml("nested too deeply") from error
    except BadYaml:
        raise
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise BadYaml(" ".join(str(error).split())) from error
    except LookupError as error:
        # The library's own error for a tag whose text has another type.
        raise BadYaml("a tag does not fit its value") from error
    finally:
        if loader is not None:
            loader.dispose()
    return documents


def _check_levels(text: str | bytes) -> None:
    level = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            level += 1
            if level > _DEEPEST:
                raise BadYaml("nested too deeply")
        elif isinstance(event, yaml.CollectionEndEvent):
            level -= 1


def _finite(text: str) -> float:
    found = float(text)
    if not math.isfinite(found):
        raise ValueError(text)
    return found


def _no_json(constant: str) -> NoReturn:
    raise ValueError(constant)


class _Measure:
    """Computes the expanded size of nodes; each is visited once, however many aliases refer
    to it.
    """

    def __init__(self, left: int, most: int) -> None:
        self._left, self._most = left, most
        self._known: dict[int, int] = {}
        self._open: set[int] = set()

    def of(self, node: yaml.Node) -> int:
        """Return the bytes of a node. Raises BadYaml if there are too many."""
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
        if total > self._left:
            raise BadYaml(f"its aliases stand for more than {self._most} bytes{_place(node)}")
        self._open.discard(key)
        self._known[key] = total
        return total


def _place(node: yaml.Node) -> str:
    mark = node.start_mark
    return "" if mark is None else f" (line {mark.line + 1})"
