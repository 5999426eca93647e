"""What a status write changes, and for whom it is company."""

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


def writer(api: FakeApi, writers: Writers) -> StatusWriter:
    return StatusWriter(
        client=api,  # type: ignore[arg-type]  # the part of the client it uses
        writes=Nowhere(),
        writers=writers,
        tenants=Tenants(monotonic=lambda: 0.0),
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


def test_a_status_write_counts_for_the_concurrency_of_other_jobs() -> None:
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
