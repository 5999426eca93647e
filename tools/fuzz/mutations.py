"""Changes to JSON that leave it JSON: bytes changed blindly stop at the parser."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from copy import deepcopy
from random import Random
from typing import Any, Final

VALUES: Final[Sequence[Any]] = (
    None, True, False, 0, -1, 1, 1.5, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 10**400,
    float("inf"), float("nan"), 1e308, "", " ", "a", "A", "-", "0", "1e99", "x" * 64, "x" * 300,
    "\ud800", "\0", "\n", "é", "{}", "[", "../..", "__proto__", [], {}, [[]], [None], {"": None},
)  # fmt: skip
"""What programs do not expect; NaN and infinities, which are no JSON, among it."""
_MOST_EDITS: Final = 4
_Edit = Callable[[Any, Any, Random, Sequence[Any]], None]


def vocabulary(seeds: Sequence[bytes]) -> tuple[Any, ...]:
    """All keys and plain values of the seeds that are JSON."""
    found: dict[str, Any] = {}
    for seed in seeds:
        try:
            value = json.loads(seed)
        except ValueError:
            continue
        for container, key in _places([value]):
            words = [container[key], *([key] if isinstance(key, str) else ())]
            found |= {repr(word): word for word in words if not isinstance(word, dict | list)}
    return tuple(found.values())


def changed(data: bytes, rng: Random, words: Sequence[Any]) -> bytes | None:
    """`data` with a few edits, None if it is no JSON.

    Args:
        data: the text of one value.
        rng: chooses; the same one makes the same edits.
        words: keys and values to write, beside VALUES.
    """
    try:
        root = [json.loads(data)]
    except (ValueError, RecursionError):
        return None
    for _ in range(rng.randint(1, _MOST_EDITS)):
        container, key = rng.choice(list(_places(root)))
        rng.choice(_EDITS)(container, key, rng, words)
        if not root:
            return b""
    return json.dumps(root[0], ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")


def _places(value: Any) -> Any:
    """Every container with each of its keys or indices."""
    pending = [value]
    while pending:
        container = pending.pop()
        for key in container if isinstance(container, dict) else range(len(container)):
            yield container, key
            if isinstance(container[key], dict | list):
                pending.append(container[key])


def _word(rng: Random, words: Sequence[Any]) -> Any:
    # A copy: lists and objects are edited where they were put.
    return deepcopy(rng.choice([*VALUES, *words]))


def _replace(container: Any, key: Any, rng: Random, words: Sequence[Any]) -> None:
    container[key] = _word(rng, words)


def _remove(container: Any, key: Any, _rng: Random, _words: Sequence[Any]) -> None:
    del container[key]


def _copy(container: Any, key: Any, rng: Random, words: Sequence[Any]) -> None:
    """A value under another key too, or once more in a list."""
    value = deepcopy(container[key])
    if isinstance(container, dict):
        container[str(rng.choice(words) if words else "x")] = value
    else:
        container.insert(key, value)


def _add(container: Any, _key: Any, rng: Random, words: Sequence[Any]) -> None:
    value = _word(rng, words)
    if isinstance(container, dict):
        container[str(rng.choice([*words, "x"]))] = value
    else:
        container.append(value)


def _wrap(container: Any, key: Any, rng: Random, words: Sequence[Any]) -> None:
    name = str(rng.choice([*words, "x"]))
    container[key] = rng.choice([[container[key]], {name: container[key]}])


def _swap(container: Any, key: Any, rng: Random, _words: Sequence[Any]) -> None:
    other = rng.choice(list(container) if isinstance(container, dict) else range(len(container)))
    container[key], container[other] = container[other], container[key]


def _alter(container: Any, key: Any, rng: Random, words: Sequence[Any]) -> None:
    """A text or a number a little longer, shorter or larger."""
    value = container[key]
    if isinstance(value, str):
        at = rng.randint(0, len(value))
        letter = rng.choice("aA0-._/ \n\0:{}[]\"'é\u0661\ud800")
        container[key] = value[:at] + rng.choice(["", letter]) + value[at + rng.randint(0, 1) :]
    elif isinstance(value, int) and not isinstance(value, bool):
        container[key] = value + rng.choice([-1, 1, value, -2 * value])
    else:
        _replace(container, key, rng, words)


_EDITS: Final[Sequence[_Edit]] = (
    _replace, _replace, _remove, _copy, _add, _wrap, _swap, _alter, _alter,
)  # fmt: skip
