"""Kinds of values that no rule of ours bounds: any number, and any number, text or boolean.

See `kinds` for what their methods return.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeGuard

from di_api.spec.raw import invalid

Schema: TypeAlias = dict[str, Any]

_LARGEST: Final = 1e300


@dataclass(frozen=True, slots=True)
class Number:
    """A finite number."""

    above: float | None = None
    """A number has to be greater; None: it can have any size."""

    def type_name(self) -> str:
        """Return the type in the tables of the documents."""
        return "number" if self.above is None else f"number above {self.above:g}"

    def fault(self, value: object) -> str | None:
        """Return the rule that a value breaks; None if there is none."""
        if not _is_number(value):
            return "must be a number"
        is_low = self.above is not None and value <= self.above
        return f"must be above {self.above:g}" if is_low else None

    def read(self, value: object, path: str) -> object:
        """Return the value of the attribute. Raises InvalidSpec."""
        if not _is_number(value):
            raise invalid(path, value, "must be a number")
        return float(value)

    def schema(self, about: Schema) -> Schema:
        """Return the schema in the CRD."""
        least = {} if self.above is None else {"minimum": self.above, "exclusiveMinimum": True}
        return {"type": "number", **about, **least}


@dataclass(frozen=True, slots=True)
class Choice:
    """A string, a finite number, true or false."""

    longest: int = 1024
    """Maximum length of a string."""

    def type_name(self) -> str:
        """Return the type in the tables of the documents."""
        return "text, number or boolean"

    def fault(self, value: object) -> str | None:
        """Return the rule that a value breaks; None if there is none."""
        if isinstance(value, str):
            is_long = len(value) > self.longest
            return f"must be at most {self.longest} characters long" if is_long else None
        is_one = isinstance(value, bool) or _is_number(value)
        return None if is_one else "must be a string, a number, true or false"

    def read(self, value: object, path: str) -> object:
        """Return the value of the attribute. Raises InvalidSpec."""
        if fault := self.fault(value):
            raise invalid(path, value, fault)
        return value

    def schema(self, about: Schema) -> Schema:
        """Return the schema in the CRD."""
        return {**about, "x-kubernetes-preserve-unknown-fields": True}


def _is_number(value: object) -> TypeGuard[int | float]:
    # True is an int to Python and not to JSON.
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    # An integer of thousands of digits fits in no float.
    return -_LARGEST <= value <= _LARGEST
