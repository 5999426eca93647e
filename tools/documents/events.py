"""The table of all events, from what the operator declares."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from di_operator.lifecycle.vocabulary.reasons import Problem, Reason

FILE = Path(__file__).resolve().parents[2] / "docs" / "reference/events.md"
_HEAD = """# Events

The Events that the operator emits on a DIJob, one for each reason; repeated ones are counted.
the webhook and di-server emit none. Made by `make generate` from their declarations, in
`di_operator/lifecycle/vocabulary/reasons.py`. Warnings are counted in `di_operator_anomalies_total`
([metrics](metrics.md)), sent or not; the others are left out when there are too many at once.

"""


def document() -> str:
    """The whole document."""
    return _HEAD + "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "## Of its life\n"
    yield "Those of phases are reasons of the phase's condition too;"
    yield "[lifecycle.md](lifecycle.md#phases) has the phases.\n"
    yield from _table(Reason)
    yield ""
    yield "## Of problems\n"
    yield "Each is the type of a condition as well: True while decisions find it,"
    yield "one Warning, False with the first decision that does not.\n"
    yield from _table(Problem)


def _table(declared: Iterable[Reason | Problem]) -> Iterator[str]:
    yield "| reason | type | when |"
    yield "|---|---|---|"
    for each in declared:
        yield f"| `{each}` | {each.event_type} | {each.when} |"
