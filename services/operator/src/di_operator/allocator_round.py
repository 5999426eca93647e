"""One round of the allocator: all of it that takes time, in a thread beside the event loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, Protocol

import structlog

from di_api.expected_completion import ExpectedCompletion
from di_operator.allocator.forecast.arrivals import ask_for_arrivals
from di_operator.allocator.forecast.cluster_snapshot import Look
from di_operator.allocator.forecast.expected_starts import expected_starts
from di_operator.allocator.grants.granting import Step, Words, step
from di_operator.allocator.model.job import NodeList
from di_operator.allocator.model.policy import Policy
from di_operator.allocator.observe.scheduling_snapshot import SchedulingSnapshot
from di_operator.allocator.rounds.budgets import held_back
from di_operator.allocator.rounds.failing_jobs import find_failing_jobs

log = structlog.get_logger(__name__)

FORECAST_SHARE: Final = 0.01
"""Share of the period that a forecast of who will start when may take."""


class CallObserver(Protocol):
    """What a round reports to the metrics, from its thread."""

    def allocated(self, call: str, result: str, seconds: float) -> None:
        """Count one call of the policy (`allocate`, `optimize`), its result and duration."""
        ...


class Round:
    """Reads the changes in, asks the policy, and decides who is assigned what."""

    def __init__(
        self,
        *,
        policy: Policy,
        forecaster: Policy | None,
        period: float,
        monotonic: Callable[[], float],
        observer: CallObserver,
    ) -> None:
        """`forecaster` is asked when jobs that wait will start; None: no forecast is made.
        `period` is the time in seconds between two reconsiderations of all jobs."""
        self._policy = policy
        self._forecaster = forecaster
        self._period = period
        self._monotonic = monotonic
        self._observer = observer

    def run(
        self, look: Look
    ) -> tuple[SchedulingSnapshot, Step, Mapping[str, ExpectedCompletion] | None]:
        """Return what was read, what is assigned now, and when those that wait will start, None if
        no forecast was asked for."""
        look.reader.take(look.changes)
        returned = look.reader.take_back(look.now) if look.everything else ()
        snapshot = look.read()
        if self._set_aside(look, self._fail_alone(snapshot, returned), snapshot):
            snapshot = look.read()
        answer = self._optimize(look, snapshot) if look.everything else None
        if look.everything and answer is None and look.reader.failing.may_search(look.now):
            found = find_failing_jobs(self._policy, snapshot.jobs, snapshot.nodes, snapshot.held)
            look.reader.failing.searched(found, look.now)
            if self._set_aside(look, found, snapshot):
                snapshot = look.read()
                answer = self._optimize(look, snapshot)
        whole = answer is not None
        if answer is None:
            answer = self._ask_for_arrivals(look.words, snapshot)
        done = step(look.words, snapshot, answer, whole=whole, explain=look.everything)
        if whole and look.over:
            done = self._give_what_is_left(look, snapshot, done)
        for key, reason in done.refused.items():
            log.warning("the policy's answer was put aside", job=key, reason=reason)
        for key, change in done.changes.items():
            wants = done.words[snapshot.uids[key]].wants
            log.info("decided", job=key, change=str(change), replicas=len(wants))
        return snapshot, done, self._foretell(snapshot, done.words) if look.everything else None

    def _foretell(
        self, snapshot: SchedulingSnapshot, words: Words
    ) -> Mapping[str, ExpectedCompletion]:
        """When those that wait will start; within so much of the period, and then no further."""
        policy = self._forecaster
        if policy is None:
            return {}
        until = self._monotonic() + FORECAST_SHARE * self._period
        return expected_starts(
            snapshot,
            words,
            ask=lambda jobs, held: self._ask(
                "forecast", policy.optimize, jobs, snapshot.nodes, held
            ),
            is_over=lambda: self._monotonic() >= until,
        )

    def _optimize(self, look: Look, snapshot: SchedulingSnapshot) -> Mapping[str, NodeList] | None:
        jobs = held_back(snapshot.jobs, snapshot.held, look.over)
        held = {key: snapshot.held[key] for key in jobs}
        answer: Mapping[str, NodeList] | None = self._ask(
            "optimize", self._policy.optimize, jobs, snapshot.nodes, held
        )
        return answer

    def _give_what_is_left(self, look: Look, snapshot: SchedulingSnapshot, done: Step) -> Step:
        """Ask the policy for jobs of namespaces beyond their budget, on what is left then."""
        waiting = {
            snapshot.uids[key]
            for key, job in snapshot.jobs.items()
            if job.namespace in look.over and not snapshot.held[key]
        }
        others = {uid: word for uid, word in done.words.items() if uid not in waiting}
        answer = self._ask_for_arrivals(others, snapshot)
        then = step(done.words, snapshot, answer, whole=False, explain=False)
        return replace(
            then,
            told=tuple({*done.told, *then.told}),
            changes={**done.changes, **then.changes},
            refused={**done.refused, **then.refused},
        )

    def _ask_for_arrivals(
        self, words: Words, snapshot: SchedulingSnapshot
    ) -> Mapping[str, NodeList]:
        return ask_for_arrivals(
            words,
            snapshot,
            lambda job, nodes: self._ask("allocate", self._policy.allocate, job, nodes),
        )

    def _fail_alone(self, snapshot: SchedulingSnapshot, uids: Iterable[str]) -> dict[str, str]:
        """Those of the jobs that the policy fails on when it is asked about each alone."""
        found: dict[str, str] = {}
        keys = {uid: key for key, uid in snapshot.uids.items()}
        for key in [keys[uid] for uid in uids if uid in keys]:
            one = {key: snapshot.jobs[key]}
            found |= find_failing_jobs(
                self._policy, one, snapshot.nodes, {key: snapshot.held[key]}, among_others=True
            )
        return found

    def _set_aside(
        self, look: Look, found: Mapping[str, str], snapshot: SchedulingSnapshot
    ) -> bool:
        for key, why in found.items():
            log.warning("the policy fails on a job", job=key, error=why)
            look.reader.set_aside(snapshot.uids[key], why, look.now)
        return bool(found)

    def _ask(self, call: str, ask: Callable[..., Any], *about: object) -> Any:
        """Call the policy; None if it fails, which may be a user's own."""
        began = self._monotonic()
        try:
            answer = ask(*about)
        except Exception:
            log.exception("the policy failed", call=call)
            self._observer.allocated(call, "error", self._monotonic() - began)
            return None
        self._observer.allocated(call, "ok", self._monotonic() - began)
        return answer
