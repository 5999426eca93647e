"""The answer about GPU-hours: its query, and its groups as JSON."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Engine

from di_history.changes.times import as_text
from di_history.records import Millis
from di_history.rest.query import name_of, only, time_of
from di_history.store.usage import MOST_PODS, Asked, TooMany, read_usage
from di_history.usage.prices import Prices
from di_history.usage.states import State
from di_history.usage.sums import HOUR, By, Held, Job, Usage, clipped, joined, months, usage
from di_history.usage.useful import Use
from di_kube.wire import collector_paused
from di_service.problems import Busy, Malformed

_DECIMALS: Final = 6
_WAIT_SECONDS: Final = 10
_RETRY_SECONDS: Final = 2
_LONGEST: Final = 10 * 366 * 24 * HOUR
_STATES: Final = tuple((each, each.value) for each in State)
_USES: Final = tuple((each, each.value) for each in Use)
Object = dict[str, Any]


class Split(StrEnum):
    """How GPU time is divided."""

    PHASES = "phases"
    USEFUL = "useful"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A request for usage, as its query has it."""

    asked: Asked
    is_monthly: bool


def query_of(arguments: Mapping[str, str], now: Millis) -> Query:
    """Return the request.

    Raises:
        Malformed: a value is invalid.
    """
    only(arguments, "by", "since", "until", "namespace", "split", "every")
    since, until = time_of(arguments, "since"), time_of(arguments, "until") or now
    if since is None or not 0 <= until - since <= _LONGEST:
        raise Malformed(
            "since must be given, at most 10 years before until, which is now if absent"
        )
    try:
        by = By(arguments.get("by", By.JOB))
        split = {Split(each) for each in filter(None, arguments.get("split", "").split(","))}
    except ValueError as error:
        raise Malformed(
            f"by must be one of {', '.join(By)}; split must be some of {', '.join(Split)}"
        ) from error
    if (every := arguments.get("every")) not in (None, "month"):
        raise Malformed("every must be month")
    return Query(
        asked=Asked(
            since=since,
            until=until,
            by=by,
            namespace=name_of(arguments, "namespace"),
            phases=Split.PHASES in split,
            useful=Split.USEFUL in split,
        ),
        is_monthly=every is not None,
    )


class UsageAnswers:
    """Answers requests for usage, one at a time: each can hold half a million pods."""

    def __init__(self, engine: Engine, prices: Prices) -> None:
        self._engine = engine
        self._prices = prices
        self._turn = threading.Lock()

    def answer(self, query: Query) -> Object:
        """Return the groups and the total.

        Raises:
            Busy: others wait.
            Malformed: too many pods.
        """
        if not self._turn.acquire(timeout=_WAIT_SECONDS):
            raise Busy(
                "other requests for usage are running, try again", retry_after=_RETRY_SECONDS
            )
        try:
            with collector_paused():
                held, jobs = read_usage(self._engine, query.asked)
                return answer_of(query, held, jobs, self._prices)
        except TooMany as error:
            raise Malformed(
                f"more than {MOST_PODS:,} pods in that time; choose a namespace, or a shorter time"
            ) from error
        finally:
            self._turn.release()


def answer_of(query: Query, held: list[Held], jobs: Mapping[str, Job], prices: Prices) -> Object:
    """Return the groups and the total of pods within the window."""
    asked = query.asked

    def shown(found: Usage) -> Object:
        return _shown(found, asked, prices)

    if query.is_monthly:
        sums_by_month = [
            (month, usage(clipped(held, since, until), asked.by, jobs))
            for month, since, until in months(asked.since, asked.until)
        ]
        groups = [
            {asked.by.value: name, "month": month, **shown(found)}
            for month, sums in sums_by_month
            for name, found in sums.items()
        ]
        everything = joined(each for _, sums in sums_by_month for each in sums.values())
        # A pod of two months is one pod.
        everything.pods = len(held)
    else:
        sums = usage(held, asked.by, jobs)
        groups = [{asked.by.value: name, **shown(found)} for name, found in sums.items()]
        everything = joined(sums.values())
    return {
        "since": as_text(asked.since),
        "until": as_text(asked.until),
        "usage": groups,
        "total": shown(everything),
    }


def _shown(found: Usage, asked: Asked, prices: Prices) -> Object:
    """Return a usage with times in hours."""
    answer: Object = {
        "jobs": len(found.jobs),
        "pods": found.pods,
        "podHours": _hours(found.pod_time),
        "gpuHours": _hours(found.gpu_time),
    }
    if asked.phases:
        answer["phases"] = {name: _hours(found.by_state[state]) for state, name in _STATES}
    if asked.useful:
        uses = found.by_use()
        answer["useful"] = {name: _hours(uses[use]) for use, name in _USES}
        answer["usefulShare"] = (
            round(uses[Use.TRAINING] / found.gpu_time, _DECIMALS) if found.gpu_time else None
        )
    if prices.label:
        answer["cost"] = round(found.cost(prices.hourly), _DECIMALS)
        answer["unpricedGpuHours"] = _hours(found.unpriced(prices.hourly))
    return answer


def _hours(time: int) -> float:
    return round(time / HOUR, _DECIMALS) if time else 0.0
