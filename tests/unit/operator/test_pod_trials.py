"""Dry runs of the pods of jobs that wait: when they are made, and what is remembered of them."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from di_api.names import LABEL_QUEUE
from di_kube.errors import ApiError, Forbidden, Invalid, Unavailable
from di_kube.resources import DIJOBS
from di_operator.lifecycle.observed.trial import Trial
from di_operator.lifecycle.vocabulary.reasons import Problem, Reason
from di_operator.metrics.metrics import Metrics
from di_operator.process.controller import Controller, JobKey
from di_operator.process.lease_state import Loss
from di_operator.process.queue import KeyedBackoff
from di_operator.reconcile.pod_trials import (
    ANSWER_BYTES,
    LONGEST,
    REST,
    SETTLE,
    SHORTEST,
    WORKERS,
    PodTrials,
    Trials,
)
from tests.unit.operator import virtual_time
from tests.unit.operator.reconciling import KEY, Bench
from tests.unit.operator.virtual_time import VirtualClock

Object = dict[str, Any]
REFUSED = Trial(reason=Reason.CREATE_FORBIDDEN, message="violates PodSecurity restricted")


class Trying(Bench):
    """A bench whose waiting job is tried when the reconciler asks for it."""

    def __init__(self) -> None:
        super().__init__()
        self.woken: list[JobKey] = []

    def try_pods(self) -> float | None:
        tries = PodTrials(
            client=self.api,  # type: ignore[arg-type]  # the part of the client it uses
            reader=self.reader(),
            trials=self.trials,
            wake_reconciler=lambda key, _: self.woken.append(key),
            observer=Metrics(),
        )
        return virtual_time.run(tries.reconcile(KEY))

    def settle_and_try(self) -> float | None:
        """Reconcile, make the dry runs that are asked for, and reconcile again."""
        self.settle()
        delay = self.try_pods() if self.asked else None
        self.asked.clear()
        self.settle()
        return delay

    def edit(self, **spec: Any) -> None:
        """Change the spec as a user does."""
        job = self.api.objects["DIJob", "ns", "a"]
        generation = job["metadata"]["generation"] + 1
        job = {
            **job,
            "metadata": {**job["metadata"], "generation": generation},
            "spec": {**job["spec"], **spec},
        }
        self.known.observe(DIJOBS, self.api.put(DIJOBS, "ns", job))

    def found(self, kind: str) -> Object | None:
        """The condition of a type, if there is one."""
        return next((each for each in self.status["conditions"] if each["type"] == kind), None)


def other_images(*images: str) -> list[Object]:
    """Tasks with these images."""
    return [
        {
            "name": f"task-{image}",
            "type": "none",
            "replicas": 3,
            "template": {"spec": {"containers": [{"name": "di-container", "image": image}]}},
        }
        for image in images
    ]


def test_a_job_that_starts_at_once_costs_no_dry_run() -> None:
    bench = Trying()
    bench.submit()
    bench.settle()
    bench.run_pods()
    assert (bench.asked, bench.api.dry_runs) == ([], [])
    # Nor does it when it is suspended: its pods were made.
    bench.edit(suspend=True)
    bench.settle()
    assert bench.asked == []


@pytest.mark.proves("lifecycle.md#dry-runs-of-pods/a-job-is-suspended-or-queued")
def test_a_suspended_job_costs_one_dry_run_for_each_template() -> None:
    bench = Trying()
    bench.submit(suspend=True, tasks=other_images("one", "two"))
    assert bench.settle_and_try() is None
    assert bench.api.dry_runs == ["a-task-one-0", "a-task-two-0"]
    assert bench.found("PodsRefused") is None
    for _ in range(3):
        bench.settle_and_try()
        bench.try_pods()
    assert len(bench.api.dry_runs) == 2
    assert bench.woken == []


def test_a_new_spec_is_tried_again() -> None:
    bench = Trying()
    bench.submit(suspend=True)
    bench.settle_and_try()
    bench.edit(tasks=other_images("one"))
    bench.settle_and_try()
    assert bench.api.dry_runs == ["a-work-0", "a-task-one-0"]


@pytest.mark.parametrize(
    ("error", "reason"), [(Invalid, "InvalidTemplate"), (Forbidden, "CreateForbidden")]
)
@pytest.mark.proves(
    "events.md#of-problems/podsrefused",
    "runbook.md#when-something-is-wrong/the-job-goes-on-and-a-condition",
)
def test_a_refusal_stands_in_a_condition_and_an_event(error: type[ApiError], reason: str) -> None:
    bench = Trying()
    bench.submit(suspend=True)
    bench.refuse(error, "the pod is not wanted", verb="create", kind="Pod")
    bench.settle_and_try()
    found = bench.found("PodsRefused")
    assert found is not None
    assert (found["status"], found["reason"]) == ("True", reason)
    assert found["message"] == "the pod is not wanted"
    assert bench.status["phase"] == "Pending"
    assert [event.reason for event in bench.events].count(Problem.PODS_REFUSED) == 1


@pytest.mark.proves("lifecycle.md#dry-runs-of-pods/the-template-is-corrected")
def test_a_corrected_template_clears_the_condition() -> None:
    bench = Trying()
    bench.submit(suspend=True)
    bench.refuse(Invalid, "bad image", verb="create", kind="Pod")
    bench.settle_and_try()
    bench.refuse(Invalid, verb="none")
    bench.edit(tasks=other_images("one"))
    bench.settle()
    stale = bench.found("PodsRefused")
    # Nothing is known of the new spec yet.
    assert stale is not None
    assert stale["status"] == "True"
    bench.settle_and_try()
    cleared = bench.found("PodsRefused")
    assert cleared is not None
    assert cleared["status"] == "False"


@pytest.mark.proves("lifecycle.md#dry-runs-of-pods/pods-were-refused")
def test_refused_pods_are_tried_again_with_growing_delays() -> None:
    bench = Trying()
    bench.submit(suspend=True)
    bench.refuse(Forbidden, "no PriorityClass", verb="create", kind="Pod")
    delays = [bench.settle_and_try()]
    tries = 1
    while bench.seconds < 4 * LONGEST:
        assert delays[-1] is not None
        bench.seconds += delays[-1]
        delays.append(bench.try_pods())
        tries += 1
    assert delays[0] == SHORTEST
    assert delays[-1] == LONGEST
    assert delays == sorted(delays, key=lambda each: each or 0)
    assert tries < 12
    bench.refuse(Forbidden, verb="none")
    bench.seconds += LONGEST
    assert bench.try_pods() is None
    bench.settle()
    cleared = bench.found("PodsRefused")
    assert cleared is not None
    assert cleared["status"] == "False"


@pytest.mark.proves("lifecycle.md#dry-runs-of-pods/the-job-starts")
def test_the_condition_of_a_job_that_is_resumed_is_taken_back() -> None:
    bench = Trying()
    bench.submit(suspend=True)
    bench.refuse(Forbidden, "no PriorityClass", verb="create", kind="Pod")
    bench.settle_and_try()
    bench.refuse(Forbidden, verb="none")
    bench.edit(suspend=False)
    bench.settle()
    cleared = bench.found("PodsRefused")
    assert cleared is not None
    assert (bench.status["phase"], cleared["status"]) == ("Starting", "False")


@pytest.mark.proves("lifecycle.md#dry-runs-of-pods/a-quota-is-full-or-a-webhook-supports-no")
@pytest.mark.parametrize(
    "error",
    [
        Forbidden(kind="Pod", code=403, message="exceeded quota: gpus"),
        Invalid(kind="Pod", code=400, reason="BadRequest", message="supports no dry run"),
    ],
)
def test_what_says_nothing_about_the_template_is_no_refusal(error: ApiError) -> None:
    bench = Trying()
    bench.submit(suspend=True)
    bench.api.before = lambda verb, kind, _: error if (verb, kind) == ("create", "Pod") else None
    assert bench.settle_and_try() is None
    assert bench.found("PodsRefused") is None


def test_an_answer_that_is_missing_leaves_the_job_to_be_tried() -> None:
    bench = Trying()
    bench.submit(suspend=True)
    bench.settle()
    bench.refuse(Unavailable, verb="create", kind="Pod")
    with pytest.raises(Unavailable):
        bench.try_pods()
    assert bench.trials.known(bench.api.objects["DIJob", "ns", "a"]) is None
    assert bench.found("PodsRefused") is None


def test_a_new_leader_keeps_the_condition_until_it_has_tried() -> None:
    bench = Trying()
    bench.submit(suspend=True)
    bench.refuse(Forbidden, "no PriorityClass", verb="create", kind="Pod")
    bench.settle_and_try()
    bench.trials = Trials(monotonic=lambda: bench.seconds)
    written = bench.api.calls["replace", "DIJob"]
    bench.settle()
    assert bench.asked == [KEY]
    assert bench.api.calls["replace", "DIJob"] == written
    bench.settle_and_try()
    assert bench.api.calls["replace", "DIJob"] == written
    bench.refuse(Forbidden, verb="none")
    bench.seconds += LONGEST
    bench.try_pods()
    assert bench.woken


def test_a_queued_job_is_tried_too() -> None:
    bench = Trying()
    body = bench.submit()
    body["metadata"]["labels"] = {LABEL_QUEUE: "team"}
    bench.submit_body(body)
    bench.refuse(Invalid, "bad", verb="create", kind="Pod")
    bench.settle_and_try()
    assert bench.found("PodsRefused") is not None


def test_a_deleted_job_is_not_tried() -> None:
    bench = Trying()
    body = bench.submit(suspend=True)
    body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    bench.submit_body(body)
    bench.settle()
    bench.try_pods()
    assert (bench.asked, bench.api.dry_runs) == ([], [])


def test_the_answers_are_bounded_by_their_bytes() -> None:
    most = 3 * ANSWER_BYTES + 10
    trials = Trials(monotonic=lambda: 0.0, most_bytes=most)
    jobs: list[Object] = [{"metadata": {"uid": f"u{n}", "generation": 1}} for n in range(3)]
    for job in jobs:
        trials.put(job, Trial())
    assert all(trials.known(job) is not None for job in jobs)
    trials.put(jobs[2], REFUSED)
    assert trials.known(jobs[0]) is None
    assert trials.known(jobs[2]) == REFUSED
    trials.put(jobs[2], Trial())
    trials.put(jobs[0], Trial())
    assert all(trials.known(job) is not None for job in jobs)
    assert trials.until_due(jobs[0]) is None


def test_of_a_job_with_a_coordinator_its_pod_is_tried() -> None:
    bench = Trying()
    template = {"spec": {"containers": [{"name": "di-container", "image": "none"}]}}
    bench.submit(
        suspend=True,
        tasks=None,
        coordinated={"coordinator": {"template": template}, "collector": {"template": template}},
    )
    bench.settle_and_try()
    assert bench.api.dry_runs == ["a-coordinator"]


@virtual_time.in_virtual_time
async def test_a_thousand_waiting_jobs_keep_no_other_namespace_waiting() -> None:
    clock = VirtualClock()
    trials, loss, tried = Trials(monotonic=clock.monotonic), Loss(), dict[JobKey, float]()

    async def reconcile(key: JobKey) -> None:
        tried[key] = clock.monotonic()

    async def report(key: JobKey, error: Exception) -> None:
        raise error

    controller = Controller(
        reconcile=reconcile,
        report=report,
        queue=trials.queue,
        backoff=KeyedBackoff(minimum=1, maximum=2, rng=Random(1)),
        workers=WORKERS,
        loss=loss,
        monotonic=clock.monotonic,
        observer=Metrics().pod_trials,
    )
    for number in range(1000):
        trials.ask(JobKey("many", f"job-{number}"))
    trials.ask(JobKey("one", "job"))
    work = asyncio.create_task(controller.run())
    await clock.sleep(SETTLE + 1000 * REST)
    trials.queue.close()
    await work
    assert tried[JobKey("one", "job")] == SETTLE
    many = sorted(when for key, when in tried.items() if key.namespace == "many")
    assert len(many) == 1000
    assert all(later - sooner >= REST * 0.99 for sooner, later in pairwise(many))
