"""Cache of job reports: no report is parsed twice, and no model is fitted twice to the same
observations.

Everything in it can be computed again from the reports: its loss changes no decision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from di_operator.allocator.goodput.fit import Observation, fit
from di_operator.allocator.goodput.params import Collecting, GoodputModel, PerfParams
from di_operator.allocator.model.profilings import InvalidProfilings, Profilings, load_profilings


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A job's report and what follows from it, independent of the time."""

    said: Profilings
    model: GoodputModel | None
    """For nodes of unknown kind."""
    by_kind: Mapping[str, GoodputModel]
    collecting: Collecting | None
    explored: int

    @classmethod
    def of(cls, said: Profilings, models: Mapping[str, GoodputModel]) -> Report:
        """Return a report and the models that were made of it."""
        return cls(
            said=said,
            model=models.get(""),
            by_kind={kind: model for kind, model in models.items() if kind},
            collecting=said.collecting(),
            explored=said.explored(),
        )


@dataclass(slots=True)
class _Known:
    raw: Mapping[str, Any]
    report: Report | None
    fitted: dict[tuple[Observation, ...], PerfParams]


class Reports:
    """The last report of each job, by its UID."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def read(self, uid: str, raw: Mapping[str, Any] | None) -> Report | None:
        """Return what a job's `status.profilings` has; None: nothing, or nothing valid.

        It takes a millisecond or more if its observations have changed.
        """
        if not raw:
            self.forget(uid)
            return None
        known = self._known.get(uid)
        if known is None:
            known = self._known[uid] = _Known({}, None, {})
        if known.raw != raw:
            known.raw, known.report = raw, None
            known.report = _read(raw, known)
        return known.report

    def forget(self, uid: str) -> None:
        """Drop the report of a job."""
        self._known.pop(uid, None)


def _read(raw: Mapping[str, Any], known: _Known) -> Report | None:
    try:
        said = load_profilings(raw)
    except InvalidProfilings:
        return None
    if said is None:
        return None

    before, known.fitted = known.fitted, {}

    def fitted(observed: Sequence[Observation]) -> PerfParams:
        key = tuple(observed)
        known.fitted[key] = before.get(key) or fit(observed)
        return known.fitted[key]

    return Report.of(said, said.models(fitted))
