"""What is written so that jobs and DIJobTasks say the same: decided from what was read."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_api.names import (
    ANNOTATION_SCALED,
    ANNOTATION_SHOWN,
    LABEL_REPLICA_LEADER,
    LABEL_STANDBY,
    LABEL_TASK_NAME,
    MARKED,
)
from di_local.api.patches import merged, patched
from di_operator.job_tasks.scalable import scalable_tasks, task_status
from di_operator.job_tasks.steps import Clash, Make, Remove, Report, Show, Step, Take, steps
from di_operator.lifecycle.observed.pods import Pod

Object = dict[str, Any]


def task(replicas: object = 2, **fields: Any) -> Object:
    bounds = {"minReplicas": 1, "maxReplicas": 8, "scalable": True}
    return {"name": "collect", "type": "collector", "replicas": replicas, **bounds, **fields}


def job(*tasks: Object, phase: str = "Running", **spec: Any) -> Object:
    metadata = {"name": "a", "namespace": "rl", "uid": "job-1", "resourceVersion": "5"}
    return {
        "metadata": metadata,
        "spec": {"tasks": list(tasks) or [task()], **spec},
        "status": {"phase": phase},
    }


def pod(
    name: str,
    *,
    ready: bool = True,
    uid: str = "job-1",
    owner: str = "collect",
    labels: Mapping[str, str] = {},
) -> Object:
    reference = {
        "apiVersion": "diengine.opendilab.org/v2alpha1",
        "kind": "DIJob",
        **{"name": "a", "uid": uid, "controller": True},
    }
    return {
        "metadata": {
            **{"name": name, "namespace": "rl", "uid": name, "resourceVersion": "1"},
            "labels": {LABEL_TASK_NAME: owner, **labels},
            "ownerReferences": [reference],
        },
        "spec": {"containers": [{}]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


def made(body: Object, uid: str = "view-1") -> Object:
    """A DIJobTask as the API server keeps it."""
    kept = copy.deepcopy(body)
    kept["metadata"] |= {"uid": uid, "generation": 1, "resourceVersion": "1"}
    return kept


def view(of: Object, **spec: int) -> Object:
    """That of a job's only task, its status up to date without pods."""
    (make,) = (step for step in look(of) if isinstance(step, Make))
    kept = made(make.body)
    kept["status"] = {**status_of(of)}
    kept["spec"] |= spec
    kept["metadata"]["generation"] += bool(spec)
    return kept


def status_of(of: Object, *pods: Object) -> Object:
    (wanted,) = scalable_tasks(of)
    return task_status(wanted, of, pods, Pod.read)


def look(of: Object, *found: Object, pods: Iterable[Object] = (), **more: Any) -> tuple[Step, ...]:
    return steps(of, found, [*pods], read_pod=Pod.read, **more)


@pytest.mark.proves("teams-autoscalers.md#a-task-on-its-own")
def test_a_scalable_task_gets_a_job_task_owned_by_the_job() -> None:
    (step,) = look(job(task(3), {**task(), "name": "other", "scalable": False}))
    assert isinstance(step, Make)
    metadata = step.body["metadata"]
    assert (metadata["name"], metadata["namespace"]) == ("a-collect", "rl")
    assert metadata["ownerReferences"][0]["uid"] == "job-1"
    assert metadata["annotations"] == {ANNOTATION_SHOWN: "3"}
    assert step.body["spec"] == {
        **{"job": "a", "task": "collect"},
        **{"replicas": 3, "minReplicas": 1, "maxReplicas": 8},
    }


def test_a_correct_job_task_is_not_written() -> None:
    assert look(job(), view(job())) == ()


@pytest.mark.parametrize(
    "of",
    [
        pytest.param(job(task(scalable=False)), id="it is not scalable any more"),
        pytest.param(job(phase="Succeeded"), id="the job has succeeded"),
        pytest.param(job(phase="Failed"), id="the job has failed"),
        pytest.param(job(preemptible=True), id="the allocator chooses the replicas"),
        pytest.param(job(task(maxReplicas=None)), id="it has no upper bound"),
        pytest.param(job(task(9)), id="the bounds do not hold"),
        pytest.param(job(task(replicas="2")), id="its replicas are no number"),
    ],
)
def test_an_unwanted_job_task_is_deleted(of: Object) -> None:
    assert look(of, view(job())) == (Remove("a-collect", "view-1"),)
    assert look(of) == ()


@pytest.mark.parametrize("spec", [None, [], {"tasks": 1}, {"tasks": [None, {"scalable": True}]}])
def test_a_malformed_spec_gives_no_steps(spec: object) -> None:
    assert look({**job(), "spec": spec}) == ()


def test_a_malformed_phase_counts_as_unfinished() -> None:
    assert [type(step) for step in look({**job(), "status": {"phase": [1]}})] == [Make]


def test_a_deleted_job_is_left_to_the_garbage_collector() -> None:
    of = job()
    of["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    assert look(of, view(job())) == ()


def test_a_foreign_object_of_that_name_is_not_changed() -> None:
    other = view(job())
    other["metadata"]["ownerReferences"][0] |= {"name": "a-b", "uid": "job-2"}
    assert look(job(), other) == (Clash("a-collect", "collect"),)
    other["metadata"]["ownerReferences"][0]["name"] = "a"
    assert look(job(), other) == ()


def test_a_scale_request_changes_the_job_and_then_the_job_task() -> None:
    of, asked = job(), view(job(), replicas=6)
    (take,) = look(of, asked)
    assert isinstance(take, Take)
    taken = patched(of, take.operations)
    assert taken["spec"]["tasks"][0]["replicas"] == 6
    assert json.loads(taken["metadata"]["annotations"][ANNOTATION_SCALED]) == {
        "collect": "view-1:2"
    }
    (show,) = look(taken, asked)
    assert isinstance(show, Show)
    assert show.patch["spec"]["replicas"] == 6
    assert look(taken, merged(asked, show.patch)) == ()


def test_a_scale_request_is_carried_out_once() -> None:
    of, asked = job(), view(job(), replicas=6)
    (take,) = look(of, asked)
    assert isinstance(take, Take)
    taken = patched(of, take.operations)
    taken["spec"]["tasks"][0]["replicas"] = 3  # by REST, before the operator could show it
    (show,) = look(taken, asked)
    assert isinstance(show, Show)
    assert show.patch["spec"]["replicas"] == 3


def test_a_request_outside_the_bounds_is_clamped() -> None:
    (take,) = look(job(task(maxReplicas=4)), view(job(), replicas=6))
    assert isinstance(take, Take)
    assert (take.asked, take.operations[1]["value"]) == (6, 4)


def test_a_refused_request_is_overwritten() -> None:
    asked = view(job(), replicas=6)
    (show,) = look(job(), asked, refused={("view-1", 2)})
    assert isinstance(show, Show)
    assert show.patch["spec"]["replicas"] == 2


def test_one_request_at_a_time_changes_the_job() -> None:
    of = job(task(), {**task(), "name": "other"})
    views = [
        made(step.body, uid=f"view-{n}")
        for n, step in enumerate(look(of))
        if isinstance(step, Make)
    ]
    for each in views:
        each["spec"]["replicas"] = 7
    assert [type(step) for step in look(of, *views)] == [Take]


@pytest.mark.parametrize(
    ("vacant", "asked", "left"),
    [
        pytest.param([0, 2], 3, [2], id="the lowest is filled first"),
        pytest.param([0, 2], 6, None, id="all are filled"),
        pytest.param([0, 2], 1, [0], id="what is above the last is free anyway"),
    ],
)
def test_vacant_indexes_are_filled_as_by_the_rest_api(
    vacant: list[int], asked: int, left: list[int] | None
) -> None:
    of = job(task(2, vacant=vacant))
    (take,) = look(of, view(of, replicas=asked))
    assert isinstance(take, Take)
    assert patched(of, take.operations)["spec"]["tasks"][0].get("vacant") == left


def test_edited_labels_and_bounds_are_put_back() -> None:
    kept = view(job())
    edited = merged(kept, {"metadata": {"labels": None}, "spec": {"maxReplicas": 100}})
    (show,) = look(job(), edited)
    assert isinstance(show, Show)
    put_back = merged(edited, show.patch)
    assert put_back["spec"] == kept["spec"]
    assert put_back["metadata"]["labels"] == kept["metadata"]["labels"]


@pytest.mark.parametrize("mark", ["{", "[1]", '{"collect": 3}', '{"collect": "view-1:x"}'])
def test_an_edited_annotation_counts_as_missing(mark: str) -> None:
    of = job()
    of["metadata"]["annotations"] = {ANNOTATION_SCALED: mark}
    (take,) = look(of, view(job(), replicas=6))
    assert isinstance(take, Take)


def test_the_pods_of_the_task_are_counted() -> None:
    going = pod("a-collect-2")
    going["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    ended = pod("a-collect-3")
    ended["status"]["phase"] = "Failed"
    pods = [
        *(pod("a-collect-0"), pod("a-collect-1", ready=False), going, ended),
        *(pod("a-learn-0", owner="learn"), pod("a-collect-4", uid="job-0")),
        pod("a-collect-standby-0", labels={LABEL_STANDBY: MARKED}),
    ]
    found = status_of(job(task(standby=1)), *pods)
    assert found == {
        **{"replicas": 2, "readyReplicas": 1},
        "selector": "diengine/job=a,diengine/task-name=collect,!diengine/standby",
    }
    (report,) = look(job(), view(job()), pods=pods)
    assert isinstance(report, Report)


def test_a_replica_of_several_pods_counts_as_one() -> None:
    of = job(task(podsPerReplica=2))
    pods = [
        *(pod("a-collect-0-0"), pod("a-collect-0-1")),
        *(pod("a-collect-1-0"), pod("a-collect-1-1", ready=False)),
        pod("a-collect-2-0"),
    ]
    assert status_of(of, *pods) == {
        **{"replicas": 3, "readyReplicas": 1},
        "selector": f"diengine/job=a,diengine/task-name=collect,{LABEL_REPLICA_LEADER}={MARKED}",
    }


@dataclass
class World:
    """A job and its view at an API server, and an operator that reads late and is killed."""

    jobs: list[Object] = field(default_factory=lambda: [job()])
    views: list[Object] = field(default_factory=list)
    uid: int = 0
    carried_out: set[tuple[str, int]] = field(default_factory=set)
    last: int = 2
    """What the last writer wrote: to the job, or to the view when the operator took it."""

    @property
    def bounds(self) -> tuple[int, int]:
        now = self.jobs[-1]["spec"]["tasks"][0]
        return now["minReplicas"], now["maxReplicas"]

    @property
    def replicas(self) -> int:
        found: int = self.jobs[-1]["spec"]["tasks"][0]["replicas"]
        return found

    def write_job(self, **fields: int) -> None:
        now = copy.deepcopy(self.jobs[-1])
        now["spec"]["tasks"][0] |= fields
        self._keep_job(now)

    def rest(self, replicas: int) -> None:
        low, high = self.bounds
        self.last = min(max(replicas, low), high)
        self.write_job(replicas=self.last)

    def rebound(self, low: int, high: int) -> None:
        self.write_job(minReplicas=min(low, self.replicas), maxReplicas=max(high, self.replicas))

    def ask(self, replicas: int) -> None:
        if not self.views:
            return
        spec = self.views[-1]["spec"]
        # As the rule of the definition has it, and a write that changes nothing makes no version.
        is_possible = spec["minReplicas"] <= replicas <= spec["maxReplicas"]
        if is_possible and replicas != spec["replicas"]:
            self._keep_view(merged(self.views[-1], {"spec": {"replicas": replicas}}))

    def forget(self) -> None:
        """Delete the view as another client does."""
        self.views.clear()

    def look(self, job_age: int = 0, view_age: int = 0, killed_after: int = 99) -> int:
        """One look by what was true some versions ago; how many writes it wanted."""
        of = self.jobs[-1 - min(job_age, len(self.jobs) - 1)]
        found = self.views[-1 - min(view_age, len(self.views) - 1) :][:1] if self.views else []
        wanted = look(of, *found)
        for step in wanted[:killed_after]:
            self._write(step)
        return len(wanted)

    def _write(self, step: Step) -> None:
        match step:
            case Make() if not self.views:
                self.uid += 1
                self.views.append(made(step.body, uid=f"view-{self.uid}"))
            case Take():
                now = patched(self.jobs[-1], step.operations)
                if (
                    now["metadata"]["resourceVersion"]
                    == self.jobs[-1]["metadata"]["resourceVersion"]
                ):
                    assert step.request not in self.carried_out
                    self.carried_out.add(step.request)
                    self._keep_job(now)
                    self.last = self.replicas
            case Show() | Report():
                now = merged(self.views[-1], step.patch)
                same = now["metadata"]["resourceVersion"], now["metadata"]["uid"]
                kept = self.views[-1]["metadata"]
                if same == (kept["resourceVersion"], kept["uid"]):
                    self._keep_view(now)
            case _:
                pass

    def _keep_job(self, now: Object) -> None:
        now["metadata"]["resourceVersion"] = str(int(now["metadata"]["resourceVersion"]) + 1)
        low, high = now["spec"]["tasks"][0]["minReplicas"], now["spec"]["tasks"][0]["maxReplicas"]
        assert low <= now["spec"]["tasks"][0]["replicas"] <= high
        self.jobs.append(now)

    def _keep_view(self, now: Object) -> None:
        metadata = now["metadata"]
        metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)
        metadata["generation"] += now["spec"] != self.views[-1]["spec"]
        assert now["spec"]["minReplicas"] <= now["spec"]["replicas"] <= now["spec"]["maxReplicas"]
        self.views.append(now)


AGES = st.integers(0, 3)
HAPPENINGS = st.one_of(
    st.tuples(st.just("rest"), st.tuples(st.integers(1, 9))),
    st.tuples(st.just("ask"), st.tuples(st.integers(0, 9))),
    st.tuples(st.just("rebound"), st.tuples(st.integers(1, 4), st.integers(1, 9))),
    st.tuples(st.just("look"), st.tuples(AGES, AGES, st.integers(0, 2))),
    st.tuples(st.just("forget"), st.just(())),
)


@given(st.lists(HAPPENINGS, max_size=30))
def test_the_replicas_become_what_the_last_writer_wrote(
    happenings: list[tuple[str, tuple[int, ...]]],
) -> None:
    world = World()
    for what, arguments in happenings:
        getattr(world, what)(*arguments)
    looks = 0
    while world.look():
        looks += 1
        assert looks < 8
    assert world.replicas == world.last
    shown = world.views[-1]
    low, high = world.bounds
    assert shown["spec"] == {
        **{"job": "a", "task": "collect", "replicas": world.last},
        **{"minReplicas": low, "maxReplicas": high},
    }
    assert shown["metadata"]["annotations"][ANNOTATION_SHOWN] == str(world.last)


def test_the_last_write_to_the_job_task_wins() -> None:
    world = World()
    while world.look():
        pass
    world.ask(5)
    world.ask(7)
    while world.look():
        pass
    assert world.replicas == 7
