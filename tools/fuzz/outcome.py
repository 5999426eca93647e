"""What a run has shown, whatever was run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

GROWTH_MIB: Final = 24
"""Most that a process may grow after the first quarter of a run: its inputs are some MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(ABC):
    """The part that all runs have in common."""

    rss_mib: tuple[int, int]
    """Largest size of the process in the first quarter of the run, and in all of it."""
    wrong: tuple[str, ...]
    """What broke and how to see it again; nothing if all is well."""
    log: str

    @property
    @abstractmethod
    def inputs(self) -> int:
        """How many there were."""

    @property
    @abstractmethod
    def title(self) -> str:
        """What was run, and how much of it."""

    @property
    def line(self) -> str:
        size = f"{self.rss_mib[0]} to {self.rss_mib[1]} MiB"
        return "\n  ".join([f"{self.title}, {size}", *self.wrong])


def growth(rss_mib: tuple[int, int]) -> Iterator[str]:
    """The finding that a process has grown too much, if it has."""
    early, late = rss_mib
    if late - early > GROWTH_MIB:
        yield f"grew from {early} to {late} MiB, by more than {GROWTH_MIB}"
