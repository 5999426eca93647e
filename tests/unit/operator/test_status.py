"""What a status write changes, and for whom it is company."""

from __future__ import annotations

import asyncio

from di_kube.resources import DIJOBS, Resource
from di_operator.cluster.status_writer import StatusWriter
from di_operator.metrics.metrics import Metrics
from di_operator.process.concurrency import AMONG_TENANTS, Tenants, Writers
from di_operator.process.controller import JobKey
from tests.unit.operator import virtual_time
from tests.unit.operator.fake_api import FakeApi, Object


class Nowhere:
    def observe(self, resource: Resource, body: Object) -> None: ...


def writer(api: FakeApi, writers: Writers, tenants: Tenants | None = None) -> StatusWriter:
    return StatusWriter(
        client=api,  # type: ignore[arg-type]  # the part of the client it uses
        writes=Nowhere(),
        writers=writers,
        tenants=tenants or Tenants(monotonic=lambda: 0.0),
        check_lease=lambda: None,
        observer=Metrics(),
    )


def test_a_status_write_keeps_the_fields_of_other_writers() -> None:
    api = FakeApi()
    status = writer(api, Writers(monotonic=lambda: 0.0))
    before = {"phase": "Running", "replicas": 2, "profilings": {"step": 3}, "later": "unknown"}
    job = api.put(DIJOBS, "ns", {"metadata": {"name": "a"}, "spec": {"a": 1}, "status": before})
    assert virtual_time.run(status.write(job, {"phase": "Succeeded"}))
    written = api.objects["DIJob", "ns", "a"]
    after = {"phase": "Succeeded", "profilings": {"step": 3}, "later": "unknown"}
    assert (written["status"], written["spec"]) == (after, {"a": 1})


def test_a_status_write_of_a_phase_counts_for_the_concurrency_of_other_jobs() -> None:
    api, writers = FakeApi(), Writers(monotonic=lambda: 0.0)
    status = writer(api, writers)
    job = api.put(DIJOBS, "ns", {"metadata": {"name": "a"}, "status": {"phase": "Starting"}})
    own, other = JobKey("ns", "a"), JobKey("ns", "b")
    assert not virtual_time.run(status.write(job, {"phase": "Starting"}))
    assert not writers.has_company(other)

    def note(*_: str) -> None:
        assert writers.has_company(other)
        assert not writers.has_company(own)

    api.before = note
    assert virtual_time.run(status.write(job, {"phase": "Running"}))
    assert writers.has_company(other)


def test_counts_of_one_job_do_not_slow_down_the_creates_of_another() -> None:
    api, writers, tenants = (
        FakeApi(),
        Writers(monotonic=lambda: 0.0),
        Tenants(monotonic=lambda: 0.0),
    )
    status = writer(api, writers, tenants)
    before = {"phase": "Running", "readyReplicas": 1}
    job = api.put(DIJOBS, "ns", {"metadata": {"name": "a"}, "status": before})
    most = 0

    async def create(under_way: asyncio.Event) -> None:
        nonlocal most
        async with tenants.writing("other"):
            most += 1
            await under_way.wait()

    async def story() -> None:
        under_way = asyncio.Event()

        def note(*_: str) -> None:
            assert not writers.has_company(JobKey("ns", "b"))

        api.before = note
        assert await status.write(job, {**before, "readyReplicas": 2})
        assert not writers.has_company(JobKey("ns", "b"))
        async with asyncio.TaskGroup() as group:
            for _ in range(AMONG_TENANTS + 1):
                group.create_task(create(under_way))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert most == AMONG_TENANTS + 1
            under_way.set()

    virtual_time.run(story())
