"""What is fuzzed: functions of any bytes that fail when a promise about those bytes is broken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.fuzz.targets import application, idempotency, ids, json_readers, quantities, reviews

SEEDS: Final = Path(__file__).resolve().parents[1] / "seeds"
"""A folder for each target: inputs to begin with, and each that once broke something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One function of any bytes."""

    name: str
    feed: Callable[[bytes], None]
    """Any exception is a finding."""
    head: int = 0
    """Bytes before the JSON, changed apart from it."""
    is_json: bool = True
    """Whether most changes to an input are to be those of a JSON value."""

    @property
    def seeds(self) -> Path:
        return SEEDS / self.name


TARGETS: Final[Mapping[str, Target]] = {
    target.name: target
    for target in (
        Target(name="admission", feed=reviews.admission),
        Target(name="conversion", feed=reviews.conversion),
        Target(name="json", feed=json_readers.both),
        Target(name="quantities", feed=quantities.quantity, is_json=False),
        Target(name="ids", feed=ids.job_id, is_json=False),
        Target(name="idempotency", feed=idempotency.annotation),
        Target(name="requests", feed=application.request, head=application.HEAD),
    )
}
