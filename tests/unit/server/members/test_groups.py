"""Members of a process group, and requests that wait for another generation."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from di_server.jobs.waiting import Waiting
from di_server.model.references import JobRef
from di_server.storage.transforms import transform_job
from tests.unit.server.fakes import Clock, Harness, Object, coordinated, job, task, watch

STANDBY = "cartpole-learner-standby-0"
PATH = "/v2alpha1/rl.cartpole/group/learner"
FORMED: Object = {"generation": 2, "state": "Formed", "members": {"2": "u2", "0": "u0"}}
FORMING: Object = {"generation": 2, "state": "Forming", "members": {"0": "u0"}}
NEXT: Object = {"generation": 3, "state": "Formed", "members": {"1": "u1"}}
DOMAIN = "di-cartpole.rl.svc.cluster.local"
IN_PLACE = {"action": "RestartInPlace"}
NO_WHOLE_NUMBER = "must be a whole number, 0 or more"


def elastic(group: Object | None = FORMED, **more: Any) -> Object:
    members = {"processGroup": {"elastic": True, "processesPerReplica": 2}}
    body = job(tasks=[task("learner", 4, **members), task()], **more)
    if group is not None:
        body["status"]["groups"] = {"learner": group}
    return body


def show(harness: Harness, job: Object) -> None:
    """The watch shows it."""
    harness.add(job)
    harness.caches.jobs.on_event("MODIFIED", transform_job(job))


def ask(harness: Harness, query: str = "", path: str = PATH) -> tuple[int, Any]:
    return harness.ask(f"{path}?{query}")


@pytest.fixture
def watched(harness: Harness) -> Harness:
    harness.add(elastic())
    watch(harness)
    return harness


@pytest.fixture(params=[True, False], ids=["cached", "live"])
def cached(request: pytest.FixtureRequest) -> bool:
    """Whether the watch has shown the job."""
    found: bool = request.param
    return found


def answered(harness: Harness, body: Object, cached: bool) -> tuple[int, Any]:
    harness.add(body)
    if cached:
        watch(harness)
    return ask(harness)


def test_a_promoted_pod_is_a_member(harness: Harness, cached: bool) -> None:
    body = elastic()
    body["spec"]["tasks"][0]["standby"] = 1
    # No pod of the second name may serve there.
    body["status"]["standIns"] = {"learner": {"0": STANDBY, "2": "cartpole-learner-7"}}
    status, found = answered(harness, body, cached)
    assert status == 200
    assert [each["pod"] for each in found["members"]] == [STANDBY, "cartpole-learner-2"]
    assert found["masterAddress"] == found["members"][0]["address"] == f"{STANDBY}.{DOMAIN}"


@pytest.mark.proves(
    "rest.md#operations-on-tasks/get-id-group-task-generation-wait", "rest.md#process-groups"
)
def test_members_are_listed_by_rank(harness: Harness, cached: bool) -> None:
    members = [
        {"index": index, "rank": rank, "pod": pod, "address": f"{pod}.{DOMAIN}"}
        for rank, (index, pod) in enumerate([(0, "cartpole-learner-0"), (2, "cartpole-learner-2")])
    ]
    assert answered(harness, elastic(), cached) == (
        200,
        {
            "generation": 2,
            "state": "Formed",
            "worldSize": 4,
            "masterAddress": f"cartpole-learner-0.{DOMAIN}",
            "members": members,
        },
    )
    assert harness.kube.calls["get", "dijobs"] == (0 if cached else 1)


@pytest.mark.parametrize(
    ("group", "generation", "state"),
    [
        (FORMING, 2, "Forming"),
        ({**FORMED, "state": "InsufficientReplicas"}, 2, "InsufficientReplicas"),
        (None, 0, "Forming"),
    ],
)
def test_a_group_that_is_not_formed_has_no_members(
    harness: Harness, group: Object | None, generation: int, state: str
) -> None:
    shown = {"generation": generation, "state": state, "worldSize": 0, "masterAddress": ""}
    assert answered(harness, elastic(group), False) == (200, {**shown, "members": []})


@pytest.mark.parametrize("query", ["wait=20", "generation=1&wait=20", "generation=3&wait=20"])
def test_another_generation_is_answered_at_once(watched: Harness, query: str) -> None:
    before = watched.clock.now
    assert ask(watched, query)[1]["generation"] == 2
    assert watched.clock.now == before


@pytest.mark.proves(
    "rest.md#operations-on-tasks/get-id-group-task-generation-wait", "rest.md#process-groups"
)
def test_a_request_waits_for_the_next_generation(watched: Harness) -> None:
    began = watched.clock.now

    def form() -> None:
        passed = watched.clock.now - began
        if passed == 2:
            show(watched, elastic(FORMING))
        elif passed == 5:
            show(watched, elastic(NEXT))

    watched.clock.after_sleep = form
    found = ask(watched, "generation=2&wait=20")[1]
    assert found["generation"] == 3
    assert [each["pod"] for each in found["members"]] == ["cartpole-learner-1"]
    assert watched.clock.now - began == 5
    assert not watched.kube.calls


def test_a_wait_ends_after_its_seconds(watched: Harness) -> None:
    before = watched.clock.now
    assert ask(watched, "generation=2&wait=7")[1]["generation"] == 2
    assert watched.clock.now - before == 7


def test_a_wait_ends_when_the_job_is_deleted(watched: Harness) -> None:
    def delete() -> None:
        body = watched.kube.objects.pop(("dijobs", "rl", "cartpole"), None)
        if body is not None:
            watched.caches.jobs.on_event("DELETED", body)

    watched.clock.after_sleep = delete
    assert ask(watched, "generation=2&wait=20")[0] == 404


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("wait=21", 422, "wait must be between 0 and 20 seconds"),
        *((f"wait={seconds}", 400, f"wait: {NO_WHOLE_NUMBER}") for seconds in ("-1", "1.5", "")),
        ("wait=1&wait=2", 400, "wait: is there twice"),
        ("generation=x", 400, f"generation: {NO_WHOLE_NUMBER}"),
        ("generation=" + "9" * 19, 400, f"generation: {NO_WHOLE_NUMBER}"),
    ],
)
def test_a_bad_query_is_refused_and_unknown_keys_are_ignored(
    watched: Harness, query: str, status: int, words: str
) -> None:
    assert ask(watched, query) == (status, words)
    assert ask(watched, "pretty=1&pretty=2")[0] == 200


NO_GROUP = (
    "task collector has no process group; it needs a processGroup, if an empty one, or a rule of "
    "the failurePolicy with RestartInPlace"
)
NOT_ITS_OWN = "task learner has no process group of its own: each of its replicas is one, of 2 pods"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("rl.cartpole/group/actor", "no such task; the tasks of this job are"),
        ("rl.cartpole/group/collector", NO_GROUP),
        ("rl.led/group/learner", "this job has a coordinator"),
        ("rl.engines/group/learner", NOT_ITS_OWN),
    ],
)
def test_a_task_without_a_group_is_refused(watched: Harness, path: str, words: str) -> None:
    engines = task("learner", 4, podsPerReplica=2, processGroup={"framework": "torch"})
    watched.add(coordinated(name="led"), job(name="engines", tasks=[engines]))
    document = json.loads(watched.client.get("/openapi.json").data)
    assert "422" in document["paths"]["/v2alpha1/{id}/group/{task}"]["get"]["responses"]
    status, message = ask(watched, path=f"/v2alpha1/{path}")
    assert status == 422
    assert message.startswith(words)


@pytest.mark.parametrize(
    ("fields", "policy", "size"),
    [
        ({"processGroup": {}}, None, 2),
        ({}, {"rules": [IN_PLACE]}, 2),
        ({}, {"rules": [{"action": "Restart"}, {"tasks": ["learner"], **IN_PLACE}]}, 2),
        ({}, {"rules": [{"tasks": ["collector"], **IN_PLACE}]}, None),
        ({}, {"rules": [{"tasks": 7, **IN_PLACE}]}, None),
        ({}, {"rules": [{"action": "Restart"}]}, None),
        ({}, {"rules": 7}, None),
        ({}, 7, None),
    ],
)
def test_a_process_group_or_a_restart_in_place_makes_a_group(
    harness: Harness, cached: bool, fields: Object, policy: Any, size: int | None
) -> None:
    body = job(tasks=[task("learner", 4, **fields), task()])
    body["status"]["groups"] = {"learner": FORMED}
    body["spec"]["failurePolicy"] = policy
    status, found = answered(harness, body, cached)
    assert status == (422 if size is None else 200)
    assert size is None or found["worldSize"] == size


def test_a_job_or_a_task_may_have_any_name(harness: Harness) -> None:
    harness.add(elastic(name="group"), job(name="a", tasks=[task("learner", 1)]))
    for path in ("rl/group/replicas", "job/rl/group/replicas"):
        assert len(ask(harness, path=f"/v2alpha1/{path}")[1]) == 6
    for path in ("rl/group", "rl.group", "rl.group.7", "job/rl/group", "job/rl.group"):
        assert ask(harness, path=f"/v2alpha1/{path}/group/learner")[0] == 200
    for path in ("rl/a", "rl.a", "job/rl/a", "job/rl.a"):
        for name in ("replicas", "profilings", "group"):
            answer = ask(harness, path=f"/v2alpha1/{path}/group/{name}")
            assert answer == (422, "no such task; the tasks of this job are learner")


def test_waiting_requests_are_answered_when_the_process_ends() -> None:
    clock, ending = Clock(), threading.Event()
    clock.after_sleep = ending.set
    waiting = Waiting(places=4, is_ending=ending.is_set, clock=clock, sleep=clock.sleep)
    began = clock()
    assert waiting.until(JobRef("rl", "a"), lambda: "old", lambda _: False, 20) == "old"
    assert clock() - began < 1


def test_the_requests_that_wait_are_bounded_by_job_and_in_all() -> None:
    arrived, leave = threading.Semaphore(0), threading.Event()

    def sleep(_: float) -> None:
        arrived.release()
        assert leave.wait(60)

    waiting = Waiting(places=4, is_ending=lambda: False, clock=Clock(), sleep=sleep)

    def wait(job: str) -> str | None:
        return waiting.until(JobRef("rl", job), lambda: "old", lambda _: leave.is_set(), 20)

    with ThreadPoolExecutor(4) as pool:
        held = []
        # A job has half of the places; one that finds none is answered at once.
        for job_, refused in (("a", "a"), ("b", "c")):
            held += [pool.submit(wait, job_) for _ in range(2)]
            for _ in range(2):
                assert arrived.acquire(timeout=60)
            assert wait(refused) == "old"
        assert not arrived.acquire(blocking=False)
        leave.set()
        assert [each.result(60) for each in held] == ["old"] * 4
