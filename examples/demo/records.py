"""What jobs tell of their training, whichever of the examples they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol

from examples.demo.curve import Returns
from examples.demo.series import Series


class Record(Protocol):
    """One job's; `notable` is by how much `value` grows until it is worth a line."""

    notable: ClassVar[float]

    @property
    def value(self) -> float:
        """The last of what it is about."""

    def sentence(self) -> str:
        """How far it is."""

    def changes(self) -> Iterator[str]:
        """A line for each time that the job was scaled."""

    def draw_terminal(self) -> str:
        """All of it in characters."""

    def draw_png(self, path: Path, *, title: str) -> None:
        """All of it as a picture."""


def record_of(profilings: Mapping[str, Any]) -> Record | None:
    """The record in these profilings; None if there is nothing to draw (yet)."""
    if profilings.get("curve"):
        return Returns(profilings)
    if profilings.get("series"):
        return Series(profilings)
    return None
