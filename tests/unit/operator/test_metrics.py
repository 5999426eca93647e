"""What the operator counts, and what counting costs."""

from __future__ import annotations

from collections.abc import Iterable

from di_kube.store import Store
from di_kube.wire import Object
from di_operator.cluster.informer_state import INDEX_PHASE, index_phase
from di_operator.metrics.metrics import Metrics


def job(name: str, phase: str | None = None) -> Object:
    status = {"status": {"phase": phase}} if phase else {}
    return {"metadata": {"name": name, "namespace": "rl"}, **status}


def test_jobs_are_counted_by_phase_without_reading_them() -> None:
    looks = 0

    def index(obj: Object) -> Iterable[str]:
        nonlocal looks
        looks += 1
        return index_phase(obj)

    store, metrics = Store(indexes={INDEX_PHASE: index}), Metrics()
    metrics.jobs(lambda: store.tally(INDEX_PHASE))
    assert b"di_jobs{" not in metrics.render()
    for number in range(100):
        store.put(job(f"job-{number}", "Running"))
    store.put(job("job-0", "Failed"))
    store.put(job("new"))
    store.remove(("rl", "job-1"))
    looks = 0
    text = [metrics.render() for _ in range(10)][-1]
    assert looks == 0
    for line in (
        b'di_jobs{phase="Failed"} 1.0',
        b'di_jobs{phase="Pending"} 1.0',
        b'di_jobs{phase="Running"} 98.0',
    ):
        assert line in text
