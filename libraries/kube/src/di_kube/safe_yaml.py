"""YAML from a file of a user: bounded, measured before aliases are followed, and built as JSON.

An alias stands for a whole part of the document. A few hundred bytes of them, each of a list of
the one before, stand for gigabytes as soon as they are written as JSON, compared or copied.
"""

from __future__ import annotations

import json
import math
from contextlib import suppress
from typing import Any, ClassVar, Final, NoReturn

import yaml

MOST_BYTES: Final = 4 * 1024 * 1024
"""Of a text, and of what it stands for: more than any API server takes."""
_DEEPEST: Final = 256
"""Levels of lists and maps. libyaml builds nodes by recursion without a bound: 40 KB of brackets
end the process."""
_OF_A_NODE: Final = 2
"""Bytes of a node beside its text: JSON has as many at least."""
_LONGEST_NUMBER: Final = 400
"""Characters. Reading a sexagesimal one takes time that grows with the square of its length."""
_YAML: Final = "tag:yaml.org,2002:"
_OF_JSON: Final = ("null", "bool", "int", "float", "str", "seq", "map")
_OTHER_KEYS: Final = frozenset(f"{_YAML}{name}" for name in ("null", "bool", "int", "float"))
# The loader of libyaml takes a tenth of the time; not every build has it.
_FASTEST: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class BadYaml(ValueError):
    """A text that is no YAML, or stands for too much; the message has one line."""


class _Loader(_FASTEST):  # type: ignore[misc]  # which of the two is known when it runs
    """Builds what JSON has and nothing else, as kubectl does: a date is text, and so is a key."""

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
    """A key as it is written."""
    if not isinstance(key, yaml.ScalarNode) or key.tag not in _OTHER_KEYS:
        return key
    return yaml.ScalarNode(f"{_YAML}str", key.value, key.start_mark, key.end_mark)


_Loader.add_constructor(f"{_YAML}int", _Loader.number)
_Loader.add_constructor(f"{_YAML}float", _Loader.number)


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
                found = json.loads(text, parse_float=_finite, parse_constant=_no_json)
                # Half of a pair of surrogates is no text that can be sent.
                json.dumps(found, ensure_ascii=False).encode()
                return [found]
        _check_levels(text)
        loader = _Loader(text)
        documents = []
        left = MOST_BYTES
        while loader.check_node():
            node = loader.get_node()
            left -= _Measure(left).of(node)
            documents.append(loader.construct_document(node))
    except RecursionError as error:
        raise BadYaml("nested too deeply") from error
    except BadYaml:
        raise
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise BadYaml(" ".join(str(error).split())) from error
    except LookupError as error:
        # The library's own words for a tag whose text is of another type.
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
