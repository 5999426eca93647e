"""Redaction of secrets in objects."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from di_cli.bundle.known import REDACTED, KnownSecrets
from di_cli.bundle.secrets import (
    cleaned,
    forms_of,
    in_text,
    is_secret_flag,
    is_secret_name,
)

_LEFT_OUT: Final = frozenset(
    {"managedFields", "kubectl.kubernetes.io/last-applied-configuration", "imagePullSecrets"}
)
"""Fields and annotations that are left out: repetitions of the object, and names of registries'
Secrets.
"""
_DEEPEST: Final = 100
_NONE_KNOWN: Final = KnownSecrets()


def redacted(value: Any, known: KnownSecrets = _NONE_KNOWN) -> Any:
    """Return an object without its secrets, and without known secrets in its strings.

    Only the kind of a Secret remains.
    """
    return _redacted(value, known, 0)


def known_secrets(values: Iterable[Any]) -> KnownSecrets:
    """Return all secrets in objects and texts, in all their encodings, because a program can print
    its environment.
    """
    return KnownSecrets(
        form for value in values for secret in _secrets(value, 0) for form in forms_of(secret)
    )


def _redacted(value: Any, known: KnownSecrets, depth: int) -> Any:
    if depth > _DEEPEST:
        return REDACTED
    if isinstance(value, str):
        inner = _as_json(value)
        if inner is None:
            return cleaned(value, known)
        return json.dumps(_redacted(inner, known, depth + 1), ensure_ascii=False)
    if isinstance(value, Mapping):
        return _mapping(value, known, depth + 1)
    if isinstance(value, list | tuple):
        secret = _after_flags(value)
        return [
            REDACTED if index in secret else _redacted(each, known, depth + 1)
            for index, each in enumerate(value)
        ]
    return value


def _mapping(value: Mapping[str, Any], known: KnownSecrets, depth: int) -> dict[str, Any]:
    if value.get("kind") == "Secret" and "apiVersion" in value:
        return {"kind": "Secret", "data": REDACTED}
    found: dict[str, Any] = {}
    for key, each in value.items():
        if key in _LEFT_OUT:
            continue
        secret = _is_secret(value, str(key), each)
        found[cleaned(str(key), known)] = REDACTED if secret else _redacted(each, known, depth)
    return found


def _secrets(value: Any, depth: int) -> Iterator[str]:
    if depth > _DEEPEST:
        return
    if isinstance(value, str):
        yield from in_text(value)
        if (inner := _as_json(value)) is not None:
            yield from _secrets(inner, depth + 1)
    elif isinstance(value, Mapping):
        for key, each in value.items():
            if _is_secret(value, str(key), each):
                yield str(each)
            if key != "managedFields":
                yield from _secrets(each, depth + 1)
    elif isinstance(value, list | tuple):
        for index in _after_flags(value):
            yield str(value[index])
        for each in value:
            yield from _secrets(each, depth + 1)


def _is_secret(owner: Mapping[str, Any], key: str, value: Any) -> bool:
    if not isinstance(value, str) or not value:
        return False
    # A variable of a container: {name: PASSWORD, value: ...}.
    if key == "value" and isinstance(owner.get("name"), str):
        return is_secret_name(owner["name"])
    return is_secret_name(key)


def _after_flags(words: Sequence[Any]) -> list[int]:
    """Return the indexes of words that follow a flag for a secret."""
    return [
        index
        for index, word in enumerate(words)
        if index
        and isinstance(word, str)
        and isinstance(words[index - 1], str)
        and is_secret_flag(words[index - 1])
    ]


def _as_json(text: str) -> Any:
    """Return the object or list that a text encodes, as an annotation or a file of a
    ConfigMap can.
    """
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict | list) else None
