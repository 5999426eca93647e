"""A sweep of a program: its options with a range or a list are parameters. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

from di_api.dns_names import job_name_of
from di_api.names import API_VERSION, DI_CONTAINER, SWEEP_KIND
from di_api.sweeps.spec import Goal

_NUMBER: Final = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_RANGE: Final = re.compile(rf"({_NUMBER})\.\.({_NUMBER})(?::(log|{_NUMBER}))?")
_WHOLE: Final = re.compile(r"[-+]?\d+")
_LOG: Final = "log"
Object = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The options of `di sweep` for a program.

    Attributes:
        first_step: of early stopping; None: every trial runs to its end.
        image: of the containers; None: none, for processes.
    """

    metric: str
    goal: Goal
    trials: int
    first_step: int | None
    image: str | None


def sweep_of_program(program: str, arguments: Sequence[str], search: Search) -> Object:
    """Return the manifest of a sweep of a Python program.

    Args:
        arguments: those of the program. `--lr 1e-5..1:log`, `--momentum 0..1`, whole numbers as in
            `--layers 1..4:1` and `--optimizer adam,sgd` are parameters, with `=` too; the others
            are the same in all trials.
    """
    parameters: list[Object] = []
    fixed: list[str] = []
    for option, value, words in _options(arguments):
        values = {} if value is None else _values(value)
        if values:
            parameters.append({"name": option.lstrip("-"), "argument": option, **values})
        else:
            fixed += words
    container: Object = {
        "name": DI_CONTAINER,
        "image": search.image or "none",
        "command": ["python3", program],
    }
    spec: Object = {
        "objective": {"metric": search.metric, "goal": search.goal.value},
        "maxTrials": search.trials,
        "parameters": parameters,
    }
    if search.first_step is not None:
        spec["earlyStopping"] = {"firstStep": search.first_step}
    if fixed:
        container["args"] = fixed
    pod = {"spec": {"containers": [container]}}
    spec["template"] = {"spec": {"tasks": [{"type": "learner", "template": pod}]}}
    return {
        "apiVersion": API_VERSION,
        "kind": SWEEP_KIND,
        "metadata": {"name": job_name_of(PurePath(program).stem)},
        "spec": spec,
    }


def _options(arguments: Sequence[str]) -> Iterator[tuple[str, str | None, list[str]]]:
    """Yield each option with its value, and the words of both; other words are alone."""
    place = 0
    while place < len(arguments):
        word = arguments[place]
        following = arguments[place + 1] if place + 1 < len(arguments) else ""
        option, mark, value = word.partition("=")
        place += 1
        if not word.startswith("--"):
            yield "", None, [word]
        elif mark:
            yield option, value, [word]
        elif following and not following.startswith("--"):
            place += 1
            yield word, following, [word, following]
        else:
            yield word, None, [word]


def _values(text: str) -> Mapping[str, Any]:
    """Return the set of values; empty: the text is one value."""
    if found := _RANGE.fullmatch(text):
        least, most, more = found.groups()
        bounds = {"min": _number(least), "max": _number(most)}
        if more == _LOG:
            return {"logUniform": bounds}
        if more is None:
            return {"uniform": bounds}
        is_whole = all(_WHOLE.fullmatch(each) for each in (least, most, more))
        return {"int" if is_whole else "quniform": {**bounds, "step": _number(more)}}
    if "," not in text:
        return {}
    return {"values": [_scalar(each) for each in text.split(",")]}


def _number(text: str) -> int | float:
    return int(text) if _WHOLE.fullmatch(text) else float(text)


def _scalar(text: str) -> str | float | bool:
    """Return a value of a list: a number or a boolean as in YAML, else the text."""
    if re.fullmatch(_NUMBER, text):
        return _number(text)
    return {"true": True, "false": False}.get(text, text)
