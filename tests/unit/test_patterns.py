"""Regular expressions that meet texts of users, pods and servers take linear time."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from random import Random
from types import ModuleType
from typing import Any, Final, NamedTuple

import pytest

import di_api
import di_cli
import di_dashboard
import di_history
import di_local
import di_operator
import di_orchestrator
import di_server
import di_simulator
import di_webhook
from di_api.explain.failure_causes import FAILURE_CAUSES
from tests.pattern_steps import TooManySteps, matching, steps

_PACKAGES: Final = (
    *(di_api, di_cli, di_dashboard, di_history, di_local, di_operator, di_orchestrator),
    *(di_server, di_simulator, di_webhook),
)
_SHORT: Final = 128
"""Characters of the shorter text, and a quarter of those of the longer one."""
_TIMES: Final = 4
_SLACK: Final = 1.3
"""By how much more than the text the steps may grow: its end may cost more than its parts."""
_MOST_STEPS: Final = 100
"""Steps for each character of the shorter text."""
_MADE: Final = 4
_FRAGMENTS: Final = 10
_AT_ONCE: Final = frozenset({"fullmatch", "match"})
"""Methods that try one place of a text and not each."""


class _Used(NamedTuple):
    name: str
    pattern: re.Pattern[str]
    is_anchored: bool


def _modules() -> Iterator[ModuleType]:
    for package in _PACKAGES:
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            # Migrations are run by a tool that is not there.
            if not found.name.endswith("__main__") and ".migrations" not in found.name:
                yield importlib.import_module(found.name)


def _patterns(value: object) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _patterns(each)


def _of_text(pattern: re.Pattern[Any]) -> re.Pattern[str]:
    """The same pattern for text if it is one for bytes."""
    if isinstance(pattern.pattern, bytes):
        return re.compile(pattern.pattern.decode(), pattern.flags | re.ASCII)
    return pattern


@cache
def _used() -> dict[str, _Used]:
    found: dict[str, _Used] = {}
    for module in _modules():
        source = None
        for name, value in vars(module).items():
            for number, pattern in enumerate(map(_of_text, _patterns(value))):
                source = source or inspect.getsource(module)
                methods = set(re.findall(rf"\b{name}\.(\w+)\(", source))
                key = f"{module.__name__}.{name}[{number}]"
                found[key] = _Used(key, pattern, bool(methods) and methods <= _AT_ONCE)
    for number, kind in enumerate(FAILURE_CAUSES):
        for text in filter(None, (kind.pattern, kind.unless)):
            key = f"FAILURE_CAUSES[{number}] {text}"
            found[key] = _Used(key, re.compile(text, re.IGNORECASE), is_anchored=False)
    return found


def _fragments(pattern: re.Pattern[str], rng: Random) -> list[str]:
    """Beginnings of texts that match: repeated, they make a matcher begin again and again."""
    made = [matching(pattern, rng) for _ in range(_MADE)]
    found = sorted({text[:end] for text in made for end in range(1, len(text) + 1)})
    return rng.sample(found, min(_FRAGMENTS, len(found)))


def _is_linear(used: _Used, fragment: str) -> bool:
    """Whether a long text takes as many more steps than a short one as it is longer."""

    def text(length: int) -> str:
        return f"{(fragment * length)[:length]}\x00"

    begins = 1 if used.is_anchored else None
    try:
        short = steps(used.pattern, text(_SHORT), most=_SHORT * _MOST_STEPS, begins=begins)
        most = int(short * _TIMES * _SLACK) + _SHORT
        steps(used.pattern, text(_SHORT * _TIMES), most=most, begins=begins)
    except TooManySteps:
        return False
    return True


@pytest.fixture(autouse=True)
def _deep() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000_000)
    yield
    sys.setrecursionlimit(before)


def _superlinear(found: Iterable[_Used]) -> dict[str, list[str]]:
    rng = Random(1)
    worst = {
        used.name: [
            fragment for fragment in _fragments(used.pattern, rng) if not _is_linear(used, fragment)
        ]
        for used in found
    }
    return {name: fragments for name, fragments in worst.items() if fragments}


def test_no_pattern_of_the_product_takes_more_than_linear_time() -> None:
    assert len(_used()) > len(FAILURE_CAUSES)
    assert _superlinear(_used().values()) == {}


@pytest.mark.parametrize(
    "pattern",
    [
        r"-----BEGIN PRIVATE KEY-----[\s\S]{0,8192}?-----END PRIVATE KEY-----",
        r"://[^\s/]{0,256}:[^\s]{0,256}(?=@)",
        r"\beyJ-?[\w-]{5,4000}\.[\w-]{1,4000}",
        r"(\S+) (?:failed )?first\b",
        r"(a|a)*b",
        r"(a+)+b",
    ],
)
def test_a_pattern_that_takes_more_than_linear_time_is_found(pattern: str) -> None:
    assert _superlinear([_Used("it", re.compile(pattern), is_anchored=False)])
