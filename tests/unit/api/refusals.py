"""Bad jobs, each made of a good one and the message that refuses it."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from typing import Any

import yaml

from tests.unit.api.jobs import Job

_LINE = re.compile(r"(?:\((.+?=.+?)\) )?(.+)")
_IN_OTHER_WORDS = re.compile(r"an object: |a list of \d+: |a huge number: ")
_KEYS = re.compile(r'\["([^"]+)"\]|\[(\d+)\]|([^.\[\]]+)')


def refused(good: Job, messages: str) -> list[tuple[str, Job]]:
    """The messages, one a line and indented where it goes on, each with the job that it is about.

    That job is `good` with the value of the message at the path of the message, or without that
    field where the message has no value. Changes that are made before are in brackets, as `edited`
    takes them: `(suspend=true; tasks[0].ports=[]) spec.group: 1: must be a string`.
    """
    lines = re.sub(r"\n +", " ", messages.strip()).splitlines()
    matches = [found for line in lines if (found := _LINE.fullmatch(line))]
    return [_refused(edited(good, found[1] or ""), found[2]) for found in matches]


def edited(good: Job, changes: str) -> Job:
    """A copy with other values: `suspend=true; tasks[0].ports=[]` has paths below `spec`, and
    values in YAML."""
    for path, _, value in (each.partition("=") for each in changes.split("; ") if each):
        good = changed(good, f"spec.{path}", yaml.safe_load(value))
    return good


def changed(good: Job, path: str, value: Any) -> Job:
    """A copy with the value at a path, in objects and lists that are made where they are missing;
    at the end of a list if there is no such index."""
    bad, keys = deepcopy(good), _keys(path)
    owner: Any = bad
    for key, following in zip(keys, [*keys[1:], None], strict=True):
        if following is None:
            new = value
        else:
            new = [] if isinstance(following, int) else {}
            if owner[key : key + 1] if isinstance(key, int) else owner.get(key) is not None:
                new = owner[key]
        if isinstance(key, int):
            owner[key : key + 1] = [new]
        else:
            owner[key] = new
        owner = new
    return bad


def without(good: Job, path: str) -> Job:
    """A copy without the field at a path."""
    bad = deepcopy(good)
    *above, last = _keys(path)
    owner: Any = bad
    for key in above:
        owner = owner[key]
    owner.pop(last, None)
    return bad


def _refused(good: Job, message: str) -> tuple[str, Job]:
    path, _, rest = message.partition(": ")
    try:
        value, end = json.JSONDecoder().raw_decode(rest)
    except ValueError:
        return message, good if _IN_OTHER_WORDS.match(rest) else without(good, path)
    assert rest[end:].startswith(": ")
    return message, changed(good, path, value)


def _keys(path: str) -> list[Any]:
    return [int(index) if index else key or name for key, index, name in _KEYS.findall(path)]
