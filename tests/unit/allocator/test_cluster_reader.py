"""An incremental reader gives the same snapshot as one that reads everything again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_api.ownership import controller_uid
from di_operator.allocator.goodput.fit import fit as real_fit
from di_operator.allocator.model.profilings import load_profilings as real_load
from di_operator.allocator.observe import report_cache as reports
from di_operator.allocator.observe.changes import Changes, News
from di_operator.allocator.observe.cluster_reader import ClusterReader
from di_operator.allocator.observe.scheduling_snapshot import SchedulingSnapshot
from di_operator.lifecycle.observed.specs import read_spec
from tests.unit.allocator.objects import NOW, SLOT, job, node, other, pod, task

Object = dict[str, Any]
GANG: Object = {"preemptible": False, "scheduling": {"gang": True}}
OBSERVED = [
    {"nodes": 1, "replicas": k, "samples": 32, "computing": 0.1, "iteration": 0.1 + k / 100}
    for k in (1, 2, 4)
]


def report(at: int, **changes: Any) -> Object:
    return {
        "reportedAt": f"2026-01-01T11:59:{at:02}Z",
        "initBatchSize": 64,
        "observations": OBSERVED,
    } | changes


def _job(draw: st.DrawFn) -> Object:
    shape: Object = draw(st.sampled_from([{}, GANG, {"preemptible": False}, {"suspend": True}]))
    status = {"profilings": draw(st.sampled_from([None, report(1), report(2), {"envSteps": -1}]))}
    return job(
        draw(st.sampled_from("xy")),
        task("learner", 2),
        phase=draw(st.sampled_from(["Pending", "Running", "Failed"])),
        status={**status, "placement": {"learner": ["a", "b"]}},
        **shape,
    )


def _pod(draw: st.DrawFn) -> Object:
    name = draw(st.sampled_from("xyz"))
    found = pod(
        name if name != "z" else "x",
        "learner",
        draw(st.sampled_from(["a", "b", "c", ""])),
        ending=draw(st.booleans()),
        phase=draw(st.sampled_from(["Running", "Succeeded"])),
    )
    if name == "z":
        del found["metadata"]["ownerReferences"]
        found["spec"]["containers"] = other("a")["spec"]["containers"]
    found["metadata"]["uid"] = f"pod-{draw(st.integers(0, 3))}"
    return found


def _other(draw: st.DrawFn) -> Object:
    found = other(draw(st.sampled_from(["a", "b", "c"])))
    amount = draw(st.sampled_from(["1", "2", "many"]))
    found["spec"]["containers"][0]["resources"]["requests"][SLOT] = amount
    found["metadata"]["uid"] = f"other-{draw(st.integers(0, 3))}"
    return found


def _node(draw: st.DrawFn) -> Object:
    found = node(draw(st.sampled_from(["a", "b", "c"])), draw(st.integers(1, 4)))
    if draw(st.booleans()) and found["metadata"]["name"] == "c":
        found["status"]["allocatable"][SLOT] = "many"
    return found


@st.composite
def changes(draw: st.DrawFn) -> tuple[str, str, Object]:
    kind = draw(st.sampled_from(["job", "pod", "other", "node"]))
    found = {"job": _job, "pod": _pod, "other": _other, "node": _node}[kind](draw)
    return kind, draw(st.sampled_from(["MODIFIED", "MODIFIED", "DELETED"])), found


def read(reader: ClusterReader) -> SchedulingSnapshot:
    found = reader.read(granted={}, now=NOW)
    return replace(
        found,
        jobs=dict(sorted(found.jobs.items())),
        present={key: +count for key, count in sorted(found.present.items())},
    )


@given(st.lists(st.lists(changes(), max_size=4), min_size=1, max_size=5))
def test_incremental_changes_give_the_snapshot_of_a_full_read(
    rounds: list[list[tuple[str, str, Object]]],
) -> None:
    news, reader = News(monotonic=lambda: 0.0), ClusterReader(read_spec)
    news.departed = {}
    news.begin(Changes())
    there: dict[str, dict[str, Object]] = {"job": {}, "pod": {}, "other": {}, "node": {}}
    tell = {"job": news.on_job, "pod": news.on_pod, "other": news.on_other, "node": news.on_node}
    for part in rounds:
        for kind, change, found in part:
            uid = found["metadata"]["uid"]
            if change != "DELETED":
                there[kind][uid] = found
                news.departed.pop(uid, None)
                tell[kind](change, found)
            elif uid in there[kind]:
                tell[kind](change, there[kind].pop(uid))
        # As the scheduler does before each look: a pod that comes later finds no job. Of pods that
        # have ended the reader knows nothing, so it forgets such a job with the last that has not.
        going = [found for found in there["pod"].values() if found["status"]["phase"] == "Running"]
        owners = {controller_uid(found) for found in going}
        news.departed = {uid: job for uid, job in news.departed.items() if uid in owners}
        reader.take(news.drain())
        anew = ClusterReader(read_spec)
        anew.take(
            Changes.all(
                jobs=there["job"].values(),
                departed=news.departed.values(),
                pods=there["pod"].values(),
                others=there["other"].values(),
                nodes=there["node"].values(),
            )
        )
        assert read(reader) == read(anew)


def test_observations_are_fitted_once_and_a_report_is_read_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fitted: list[int] = []
    loaded: list[Object] = []

    def fit(seen: Any) -> Any:
        fitted.append(len(seen))
        return real_fit(seen)

    def load(raw: Any) -> Any:
        loaded.append(raw)
        return real_load(raw)

    monkeypatch.setattr(reports, "fit", fit)
    monkeypatch.setattr(reports, "load_profilings", load)
    reader = ClusterReader(read_spec)

    def look(profilings: Object, **more: Any) -> Any:
        reader.put_job(job("x", task("learner"), status={"profilings": profilings}, **more))
        return reader.read(granted={}, now=NOW).jobs["rl/x"].model

    first = look(report(1))
    look(report(1), metadata={"generation": 2})
    assert (len(loaded), fitted) == (1, [3])
    assert look(report(2, envSteps=7)) == first
    assert (len(loaded), fitted) == (2, [3])
    assert look(report(3, observations=OBSERVED[:2])) != first
    assert (len(loaded), fitted) == (3, [3, 2])
    reader.remove_job(job("x", task("learner")))
    reader.read(granted={}, now=NOW)
    assert look(report(1)) == first
    assert fitted == [3, 2, 3]


def test_only_changed_objects_are_read_again() -> None:
    read_again: list[str] = []

    def reading(body: Any) -> Any:
        read_again.append(body["metadata"]["name"])
        return read_spec(body)

    reader = ClusterReader(reading)
    for name in ("x", "y"):
        reader.put_job(job(name, task("learner"), phase="Pending"))
    reader.read(granted={}, now=NOW)
    reader.read(granted={}, now=NOW)
    assert sorted(read_again) == ["x", "y"]
    reader.put_pod(pod("y", "learner", "a"))
    found = reader.read(granted={}, now=NOW)
    assert sorted(read_again) == ["x", "y", "y"]
    assert found.present["rl/y"].total() == 1


def test_changes_are_dropped_while_no_reader_takes_them() -> None:
    news = News(monotonic=lambda: 0.0)
    news.on_other("ADDED", other("a"))
    news.on_job("DELETED", job("x", task("learner")))
    assert news.drain() == Changes()
    assert news.departed is None
