"""One round of the allocator: the slow part, which runs in a thread beside the event loop."""

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
"""Share of the period that a forecast of expected starts may take."""


class CallObserver(Protocol):
    """The metrics that a round updates, from its thread."""

    def allocated(self, call: str, result: str, seconds: float) -> None:
        """Count one call of the policy (`allocate`, `optimize`) with its result and duration in
        seconds.
        """
        ...


class Round:
    """Applies the recorded changes, calls the policy, and computes the assignments."""

    def __init__(
        self,
        *,
        policy: Policy,
        forecaster: Policy | None,
        period: float,
        monotonic: Callable[[], float],
        observer: CallObserver,
    ) -> None:
        """Prepare rounds.

        Args:
            forecaster: the policy that computes expected starts of waiting jobs; None: no forecast.
            period: seconds between two reallocations of all jobs.
        """
        self._policy = policy
        self._forecaster = forecaster
        self._period = period
        self._monotonic = monotonic
        self._observer = observer

    def run(
        self, look: Look
    ) -> tuple[SchedulingSnapshot, Step, Mapping[str, ExpectedCompletion] | None]:
        """Return the cluster as read, the assignments, and the expected starts of waiting jobs
        (None if no forecast was requested).
        """
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
        """Return the expected starts of waiting jobs, as many as fit into the forecast's share of
        the period.
        """
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
        """Call the policy for jobs of namespaces beyond their budget, with the nodes that
        remain.
        """
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
        """Return the jobs for which the policy fails when it is called for each alone, with the
        error.
        """
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
        """Call the policy; return None if it fails. A policy can be a user's own."""
        began = self._monotonic()
        try:
            answer = ask(*about)
        except Exception:
            log.exception("the policy failed", call=call)
            self._observer.allocated(call, "error", self._monotonic() - began)
            return None
        self._observer.allocated(call, "ok", self._monotonic() - began)
        return answer
