"""A status write is company for other jobs."""

from __future__ import annotations

from di_kube.resources import DIJOBS, Resource
from di_operator.cluster.status_writer import StatusWriter
from di_operator.metrics.metrics import Metrics
from di_operator.process.concurrency import Tenants, Writers
from di_operator.process.controller import JobKey
from tests.unit.operator import virtual_time
from tests.unit.operator.fake_api import FakeApi, Object


class Nowhere:
    def observe(self, resource: Resource, body: Object) -> None: ...


def test_a_status_write_counts_for_the_concurrency_of_other_jobs() -> None:
    api, writers = FakeApi(), Writers(monotonic=lambda: 0.0)
    status = StatusWriter(
        client=api,  # type: ignore[arg-type]  # the part of the client it uses
        writes=Nowhere(),
        writers=writers,
        tenants=Tenants(monotonic=lambda: 0.0),
        check_lease=lambda: None,
        observer=Metrics(),
    )
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
