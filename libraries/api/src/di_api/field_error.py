"""An error in one field, with a one-line message for the user."""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

# Longer values are cut in messages: a response of the API server must not echo megabytes.
_SHOWN = 80
# difflib is quadratic in the length of the word; no field of ours is nearly as long as this.
_LONGEST_SUGGESTED = 64
# Python refuses to print integers of thousands of digits.
_LARGEST_SHOWN_BITS = 128


class Absent:
    """Placeholder for the value of an absent field, because None is a JSON value."""

    @override
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = Absent()


@dataclass(frozen=True, slots=True)
class FieldError:
    """A field, its value and the rule that it breaks.

    `path` is written as kubectl writes it, `spec.tasks[0].replicas`. `value` is the JSON value
    found, ABSENT if the field is missing.
    """

    path: str
    value: object
    message: str
    passes: tuple[str, int] | None = None
    """For a size: the bound, and the amount that exceeds it. A job that was created under another
    bound can keep its size, and become smaller.
    """
    key: str = field(default="", compare=False)
    """For an unknown field: its name."""
    known: Collection[str] = field(default=(), compare=False)
    """For an unknown field: the names that may have been meant."""

    @property
    def advice(self) -> str:
        """Return the message with the name that was probably meant.

        The search for that name costs a thousand times as much as the error, so it runs only for
        errors that are shown.
        """
        if not self.known:
            return self.message
        meant = _nearest(self.key, self.known)
        hint = f"did you mean {meant}?" if meant else f"the fields here are {_listed(self.known)}"
        return f"{self.message}; {hint}"

    @override
    def __str__(self) -> str:
        if isinstance(self.value, Absent):
            return f"{self.path}: {self.advice}"
        return f"{self.path}: {_shown(self.value)}: {self.advice}"


class InvalidSpec(ValueError):
    """A spec that breaks rules; `errors` has all of them, at least one."""

    def __init__(self, errors: Iterable[FieldError]) -> None:
        self.errors = tuple(errors)
        super().__init__("; ".join(str(error) for error in self.errors))


def child(path: str, key: str | int) -> str:
    """Return the path of the field or list item `key` below `path`."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    name = _cut(key)
    if not name or any(character in name for character in ".[]/ "):
        return f"{path}[{json.dumps(name, ensure_ascii=False)}]"
    return f"{path}.{name}" if path else name


def unknown_field(path: str, key: str, value: object, known: Collection[str]) -> FieldError:
    """Return the error for an unknown field, which can suggest the name that was probably meant."""
    return FieldError(child(path, key), value, "unknown field", key=key, known=known)


def _nearest(key: str, known: Iterable[str]) -> str | None:
    if len(key) > _LONGEST_SUGGESTED:
        return None
    lowered = {name.lower(): name for name in sorted(known)}
    close = difflib.get_close_matches(key.lower(), lowered, n=1, cutoff=0.6)
    return lowered[close[0]] if close else None


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def mapping(value: object) -> Mapping[str, Any]:
    """Return `value` if it is an object, else an empty object.

    Rules read fields whose own shape can be wrong. The schema reports that error, and the other
    rules still run.
    """
    if isinstance(value, dict):
        # Nearly always: the check against the abstract class takes ten times as long.
        return value
    return value if value is not None and isinstance(value, Mapping) else {}


def items(value: object) -> list[Any]:
    """Return `value` if it is a list, else an empty list; see `mapping`."""
    return value if isinstance(value, list) else []


def _shown(value: object) -> str:
    match value:
        case str():
            return json.dumps(_cut(value), ensure_ascii=False)
        case bool() | float() | None:
            return json.dumps(value)
        case int():
            return str(value) if value.bit_length() <= _LARGEST_SHOWN_BITS else "a huge number"
        case Mapping():
            return "an object" if value else "{}"
        case list() | tuple():
            return f"a list of {len(value)}" if value else "[]"
        case _:
            return f"a {type(value).__name__}"


def _cut(text: str) -> str:
    # A lone surrogate is legal JSON, but a response that quotes it could not be encoded.
    shown = text[:_SHOWN].encode("utf-8", "replace").decode()
    return shown if len(text) <= _SHOWN else f"{shown[:-3]}..."
