"""The fields of specs, for comparisons of several jobs; seeds are kept apart. Pure."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from di_api.field_error import mapping
from di_cli.views.describe import code_of

_SEED: Final = "seed"
_HIDDEN: Final = "SEED"
"""Stands for the value of a seed."""
_WORDS: Final = re.compile(r"(\s+)")
_COMMANDS: Final = ("command", "args")


def fields_of(spec: Mapping[str, Any]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the values of a spec by their paths, and its seeds.

    A seed is the value of an argument or environment variable named seed in any case, such as
    `--seed 3`, `--seed=3`, `train.seed=3` or SEED. The values have SEED in its place. Own code
    counts by its content: the ConfigMap has another name for each job.
    """
    seeds: list[str] = []
    rest = {key: value for key, value in spec.items() if key != "code"}
    found = dict(_fields("", rest, seeds)) if rest else {}
    if code := code_of(spec):
        found["code"] = code
    return found, tuple(seeds)


def _fields(path: str, value: Any, seeds: list[str]) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        hidden = _hidden_variable(value, seeds)
        for key, inner in (hidden or value).items():
            yield from _field_or_command(f"{path}.{key}" if path else str(key), key, inner, seeds)
    elif isinstance(value, list) and any(isinstance(each, Mapping | list) for each in value):
        for key, each in zip(_keys(value), value, strict=True):
            yield from _fields(f"{path}[{key}]", each, seeds)
    else:
        yield path, _text(value)


def _keys(values: list[Any]) -> Iterable[object]:
    """Return the names of a list's objects, else their types, else their indexes."""
    for key in ("name", "type"):
        names = [mapping(each).get(key) for each in values]
        if all(isinstance(name, str) for name in names) and len({*names}) == len(names):
            return names
    return range(len(values))


def _field_or_command(
    path: str, key: object, value: Any, seeds: list[str]
) -> Iterator[tuple[str, str]]:
    is_words = isinstance(value, list) and all(isinstance(each, str) for each in value)
    if key in _COMMANDS and is_words:
        yield path, shlex.join(_without_seeds(value, seeds))
    else:
        yield from _fields(path, value, seeds)


def _hidden_variable(value: Mapping[str, Any], seeds: list[str]) -> dict[str, Any] | None:
    """Return an environment variable without its value if it is a seed; else None."""
    if str(value.get("name", "")).casefold() != _SEED or not isinstance(value.get("value"), str):
        return None
    seeds.append(value["value"])
    return {**value, "value": _HIDDEN}


def _without_seeds(words: list[str], seeds: list[str]) -> list[str]:
    """Return the words of a command with hidden seeds; a script in one word has several."""
    is_next = False
    found = []
    for word in words:
        parts = _WORDS.split(word)
        for place, part in enumerate(parts):
            if not part or part.isspace():
                continue
            name, equals, value = part.partition("=")
            if is_next and not part.startswith("--"):
                seeds.append(part)
                parts[place] = _HIDDEN
            elif equals and _is_seed(name):
                seeds.append(value)
                parts[place] = f"{name}={_HIDDEN}"
            is_next = not is_next and not equals and part.startswith("-") and _is_seed(part)
        found.append("".join(parts))
    return found


def _is_seed(name: str) -> bool:
    return name.lstrip("-").rpartition(".")[2].casefold() == _SEED


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return shlex.join(map(str, value))
    return json.dumps(value, ensure_ascii=False)
