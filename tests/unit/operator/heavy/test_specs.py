"""A heavy spec is judged once, beside the event loop, and takes little memory afterwards."""

from __future__ import annotations

import asyncio
import gc
import threading
import tracemalloc
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import orjson
import pytest

from di_api.spec.bounds import MAX_SPEC_BYTES
from di_kube.packed import json_text
from di_operator.cluster import informer_state
from di_operator.cluster.informer_state import transform_job
from di_operator.lifecycle.observed import specs
from di_operator.lifecycle.observed.specs import HEAVY, SPEC_BYTES, Reading, SpecCache, examine
from di_operator.process.controller import JobKey
from tests.unit.operator.heavy.bodies import BEYOND, WITHIN, ended, heavy, started
from tests.unit.operator.reconciling import KEY, Bench


class _Judge:
    def __init__(self) -> None:
        self.judged: list[str] = []

    def __call__(self, job: Mapping[str, Any]) -> Reading:
        self.judged.append(job["metadata"]["uid"])
        return examine(job)


def _kept(job: dict[str, Any]) -> dict[str, Any]:
    return dict(transform_job(deepcopy(job)))


@pytest.mark.proves("operations.md#heavy-jobs/judging-a-spec")
def test_a_heavy_spec_is_judged_once_a_generation() -> None:
    judge = _Judge()
    cache = SpecCache(size=64, most_bytes=WITHIN, examine=judge)
    jobs = [_kept(heavy(WITHIN, name=f"job-{number}")) for number in range(8)]
    for _ in range(3):
        assert all(cache.examine(job).spec is not None for job in jobs)
    assert sorted(judge.judged) == sorted(job["metadata"]["uid"] for job in jobs)
    jobs[0]["metadata"]["generation"] = 2
    cache.examine(jobs[0])
    assert judge.judged.count("uid-job-0") == 2


@pytest.mark.proves("operations.md#heavy-jobs/readings-in-memory")
def test_readings_of_heavy_specs_are_remembered_up_to_a_number_of_bytes() -> None:
    jobs = [_kept(heavy(WITHIN, name=f"job-{number}")) for number in range(8)]
    cache = SpecCache(size=64, most_bytes=3 * jobs[0][SPEC_BYTES])
    for job in jobs:
        cache.examine(job)
    assert sum(cache.known(job) is not None for job in jobs) == 3
    light = _kept(heavy(0, name="light"))
    cache.examine(light)
    cache.examine(jobs[0])
    assert cache.known(light) is not None
    assert cache.known(jobs[0]) is not None


def test_a_heavy_spec_with_errors_is_judged_again_once_it_is_not_remembered() -> None:
    judge = _Judge()
    cache = SpecCache(size=64, most_bytes=1, examine=judge)
    bad = _kept(heavy(WITHIN, name="bad", backoffLimit=-1))
    for job in (bad, _kept(heavy(WITHIN, name="other")), bad):
        cache.examine(job)
    assert judge.judged == ["uid-bad", "uid-other", "uid-bad"]
    assert [str(error) for error in cache.examine(bad).errors] == [
        "spec.backoffLimit: -1: must be 0 or more"
    ]


@pytest.mark.proves("operations.md#heavy-jobs/a-spec")
def test_a_spec_beyond_the_bound_is_refused_by_its_bytes_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def judge(job: Mapping[str, Any]) -> list[Any]:
        raise AssertionError("its rules would take seconds")

    monkeypatch.setattr(specs, "validate_job", judge)
    job = heavy(BEYOND)
    (error,) = examine(_kept(job)).errors
    assert f"{len(json_text(job['spec']))} bytes" in str(error)
    assert str(MAX_SPEC_BYTES) in str(error)


@pytest.mark.parametrize("status", [None, ended("Failed"), ended("Succeeded"), {}])
def test_templates_beyond_the_bound_are_not_kept_without_pods(
    status: dict[str, Any] | None,
) -> None:
    job = heavy(BEYOND, status=status, ttlSecondsAfterFinished=60, cleanPodPolicy="All")
    kept = transform_job(deepcopy(job))
    assert kept["spec"] == {"ttlSecondsAfterFinished": 60, "cleanPodPolicy": "All"}
    assert kept[SPEC_BYTES] == len(json_text(job["spec"]))


def test_a_started_job_beyond_the_bound_keeps_its_templates() -> None:
    job = heavy(BEYOND, status=started())
    assert transform_job(deepcopy(job))["spec"] == job["spec"]
    reading = examine(_kept(job))
    assert reading.spec is not None
    assert len(reading.errors) == 1


@pytest.mark.parametrize("status", [None, ended(), started()])
def test_templates_within_the_bound_are_kept(status: dict[str, Any] | None) -> None:
    job = heavy(WITHIN, status=status)
    assert transform_job(deepcopy(job))["spec"] == job["spec"]


def test_a_heavy_spec_within_the_bound_is_not_walked_at_each_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def walk(spec: Mapping[str, Any]) -> None:
        raise AssertionError("the event loop would wait for it")

    monkeypatch.setattr(informer_state, "weight_error", walk)
    assert _kept(heavy(WITHIN))[SPEC_BYTES] > HEAVY


@pytest.mark.proves("operations.md#heavy-jobs/a-job-in-memory")
@pytest.mark.parametrize(
    ("spec_bytes", "status", "share"),
    [(WITHIN, None, 4), (WITHIN, ended(), 4), (BEYOND, None, 100), (BEYOND, started(), 4)],
)
def test_a_heavy_job_takes_less_memory_than_its_text(
    spec_bytes: int, status: dict[str, Any] | None, share: int
) -> None:
    texts = [
        orjson.dumps(heavy(spec_bytes, name=f"job-{number}", status=status)) for number in range(4)
    ]
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        kept = [transform_job(orjson.loads(text)) for text in texts]
        gc.collect()  # which also frees the tuples that Python keeps for the next ones
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(kept) == len(texts)
    assert (after - before) * share < sum(map(len, texts))


def test_the_last_applied_configuration_is_not_kept() -> None:
    job = heavy(0)
    applied = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "mine": "x"}
    job["metadata"]["annotations"] = applied
    assert transform_job(job)["metadata"]["annotations"] == {"mine": "x"}


def test_a_new_job_beyond_the_bound_fails_with_the_bound() -> None:
    bench = Bench()
    bench.submit_body(heavy(BEYOND))
    bench.settle()
    assert (bench.status["phase"], bench.condition["reason"]) == ("Failed", "InvalidSpec")
    assert str(MAX_SPEC_BYTES) in bench.condition["message"]
    assert bench.api.calls["create", "Pod"] == 0


@pytest.mark.proves("operations.md#heavy-jobs/the-event-loop")
def test_a_heavy_spec_is_judged_beside_the_event_loop() -> None:
    bench = Bench()
    bench.submit_body(heavy(WITHIN))
    bench.submit_body(heavy(WITHIN, name="b"))
    threads: list[int] = []
    may_go_on = threading.Event()

    def judge(job: Mapping[str, Any]) -> Reading:
        threads.append(threading.get_ident())
        assert may_go_on.wait(60)
        return examine(job)

    bench.specs = SpecCache(size=8, examine=judge)

    async def reconcile() -> float | None:
        reconciler = bench.reconciler()
        first = asyncio.create_task(reconciler.reconcile(KEY))
        while not threads:
            await asyncio.sleep(0.01)
        # A second one gives its worker back: others may be waiting for it.
        later = await reconciler.reconcile(JobKey("ns", "b"))
        assert not first.done()
        may_go_on.set()
        await first
        return later

    later = asyncio.run(reconcile())
    assert later is not None
    assert later > 0
    assert threads
    assert threading.get_ident() not in threads
