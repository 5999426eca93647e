"""What is made of the moments that the benchmark of both bindings has seen."""

from __future__ import annotations

from di_operator.builders.pinning import Binding
from tools.benchmarks.binding import result, table
from tools.benchmarks.follower import Seen


def test_a_pod_counts_from_its_own_creation_and_its_job_from_that_of_the_first() -> None:
    one = Seen(pods={"a": 1.0, "b": 1.5}, ready={"a": 1.25, "b": 2.0})
    two = Seen(pods={"c": 7.0}, ready={"c": 7.125})
    found = result(Binding.DIRECT, "at once", [[one], [two]])
    assert found["jobs"] == 2
    assert found["pod_ms"] == {"count": 3, "p50": 250.0, "p99": 500.0, "max": 500.0}
    assert found["job_ms"] == {"count": 2, "p50": 125.0, "p99": 1000.0, "max": 1000.0}
    assert table([found]).splitlines()[-1] == "| `Direct` | at once | 250 | 500 | 125 | 1000 |"
