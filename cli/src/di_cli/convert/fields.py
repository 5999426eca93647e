"""Fields of a manifest that is converted: each is taken once, and what is left gets a comment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from di_api.field_error import child, mapping

UNKNOWN: Final = "this field is unknown to di convert"

Object = dict[str, Any]


class RefusedManifest(ValueError):
    """A manifest that has no equal DIJob.

    Attributes:
        place: path of the field.
        reason: why it cannot be converted.
        remedy: what to do.
    """

    def __init__(self, place: str, reason: str, remedy: str) -> None:
        self.place, self.reason, self.remedy = place, reason, remedy
        super().__init__(f"{place}: {reason}")


@dataclass(frozen=True, slots=True)
class Comment:
    """A field without an equal, and why it has none."""

    path: str
    why: str


class Fields:
    """An object of the manifest, without its null fields.

    Attributes:
        path: where it is in the manifest.
        comments: those of the whole manifest, in the order in which they were found.
    """

    def __init__(self, value: object, path: str, comments: list[Comment]) -> None:
        self.path, self.comments = path, comments
        if value is not None and not isinstance(value, Mapping):
            raise RefusedManifest(path or "the document", "must be an object", "correct the field")
        self._left: Object = {
            key: _without_nulls(each) for key, each in mapping(value).items() if each is not None
        }

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def __bool__(self) -> bool:
        return bool(self._left)

    def __iter__(self) -> Iterator[str]:
        return iter([*self._left])

    def at(self, name: str | int) -> str:
        """Return the path of a field; "" is the object itself."""
        return self.path if name == "" else child(self.path, name)

    def at_path(self, path: str) -> Fields:
        """Return an object of the manifest whose fields are taken, for comments on it."""
        return Fields(None, path, self.comments)

    def get(self, name: str) -> Any:
        """Return a field without converting it; None if it is absent."""
        return self._left.get(name)

    def take(self, name: str) -> Any:
        """Return a field, which is then converted; None if it is absent."""
        return self._left.pop(name, None)

    def inner(self, name: str) -> Fields:
        """Return a field that is an object; empty if it is absent."""
        return Fields(self.take(name), self.at(name), self.comments)

    def inners(self, name: str) -> list[Fields]:
        """Return the items of a field that is a list of objects; empty if it is absent."""
        found = self.take(name)
        if found is not None and not isinstance(found, list):
            raise RefusedManifest(self.at(name), "must be a list", "correct the field")
        return [
            Fields(each, child(self.at(name), index), self.comments)
            for index, each in enumerate(found or ())
        ]

    def whole(self, name: str, least: int = 0) -> int | None:
        """Return a field that is a whole number; None if it is absent."""
        found = self.take(name)
        if found is None or (isinstance(found, int) and found is not True and found >= least):
            return found
        raise RefusedManifest(
            self.at(name), f"must be a whole number, {least} or more", "correct the field"
        )

    def text(self, name: str) -> str | None:
        """Return a field that is a text; None if it is absent."""
        found = self.take(name)
        if found is None or isinstance(found, str):
            return found
        raise RefusedManifest(self.at(name), "must be a text", "correct the field")

    def choice(self, name: str, *choices: str) -> str | None:
        """Return a field that is one of some words; None if it is absent."""
        found = self.text(name)
        if found is None or found in choices:
            return found
        raise RefusedManifest(
            self.at(name), f"must be one of {', '.join(choices)}", "correct the field"
        )

    def comment(self, name: str, why: str) -> None:
        """Take a field that has no equal; nothing if it is absent."""
        if self.take(name) is not None:
            self.remark(name, why)

    def remark(self, name: str, why: str) -> None:
        """Comment on a field, whether it is converted or not."""
        self.comments.append(Comment(self.at(name), why))

    def rest(self, why: str = UNKNOWN) -> None:
        """Comment on each field that was not taken."""
        for name in self:
            self.comment(name, why)


def _without_nulls(value: Any) -> Any:
    """Return a value without the null fields of its objects, which mean the same as absent ones."""
    if isinstance(value, Mapping):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value
