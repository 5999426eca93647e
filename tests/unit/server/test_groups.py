"""Who belongs to a process group: what is told, and who waits for news of it."""

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

STANDING_BY = "cartpole-learner-standby-0"
PATH = "/v2alpha1/rl.cartpole/group/learner"
FORMED: Object = {"generation": 2, "state": "Formed", "members": {"2": "u2", "0": "u0"}}
FORMING: Object = {"generation": 2, "state": "Forming", "members": {"0": "u0"}}
NEXT: Object = {"generation": 3, "state": "Formed", "members": {"1": "u1"}}


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
    answer = harness.client.get(f"{path}?{query}")
    found = json.loads(answer.data)
    return answer.status_code, found["data"] if answer.status_code == 200 else found["message"]


@pytest.fixture
def watched(harness: Harness) -> Harness:
    harness.add(elastic())
    watch(harness)
    return harness


@pytest.mark.parametrize("cached", [True, False])
def test_a_pod_that_stood_by_is_told_where_it_serves(harness: Harness, cached: bool) -> None:
    body = elastic()
    body["spec"]["tasks"][0]["standby"] = 1
    body["status"]["standIns"] = {"learner": {"0": STANDING_BY, "2": "cartpole-learner-7"}}
    harness.add(body)
    if cached:
        watch(harness)
    status, told = ask(harness)
    assert status == 200
    # What names no pod that may serve there says nothing.
    assert [each["pod"] for each in told["members"]] == [STANDING_BY, "cartpole-learner-2"]
    assert told["masterAddress"] == told["members"][0]["address"]
    assert told["masterAddress"].startswith(f"{STANDING_BY}.di-cartpole.")


@pytest.mark.parametrize("cached", [True, False])
def test_a_world_is_told_by_rank(harness: Harness, cached: bool) -> None:
    harness.add(elastic())
    if cached:
        watch(harness)
    domain = "di-cartpole.rl.svc.cluster.local"
    members = [
        {"index": index, "rank": rank, "pod": pod, "address": f"{pod}.{domain}"}
        for rank, (index, pod) in enumerate([(0, "cartpole-learner-0"), (2, "cartpole-learner-2")])
    ]
    assert ask(harness) == (
        200,
        {
            "generation": 2,
            "state": "Formed",
            "worldSize": 4,
            "masterAddress": f"cartpole-learner-0.{domain}",
            "members": members,
        },
    )
    assert harness.kube.calls["get", "dijobs"] == (0 if cached else 1)


@pytest.mark.parametrize("group", [FORMING, {**FORMED, "state": "InsufficientReplicas"}])
def test_there_are_no_members_without_a_world(harness: Harness, group: Object) -> None:
    harness.add(elastic(group))
    told = {"generation": 2, "state": group["state"], "worldSize": 0, "masterAddress": ""}
    assert ask(harness) == (200, {**told, "members": []})


def test_a_group_that_nobody_has_joined(harness: Harness) -> None:
    harness.add(elastic(None))
    assert ask(harness)[1]["generation"] == 0
    assert ask(harness)[1]["state"] == "Forming"


@pytest.mark.parametrize("query", ["wait=20", "generation=1&wait=20", "generation=3&wait=20"])
def test_a_world_that_is_not_known_is_told_at_once(watched: Harness, query: str) -> None:
    before = watched.clock.now
    assert ask(watched, query)[1]["generation"] == 2
    assert watched.clock.now == before


def test_who_knows_the_world_is_told_when_there_is_another(watched: Harness) -> None:
    began = watched.clock.now

    def form() -> None:
        passed = watched.clock.now - began
        if passed == 2:
            show(watched, elastic(FORMING))
        elif passed == 5:
            show(watched, elastic(NEXT))

    watched.clock.after_sleep = form
    found = ask(watched, "generation=2&wait=20")[1]
    assert (found["generation"], [each["pod"] for each in found["members"]]) == (
        3,
        ["cartpole-learner-1"],
    )
    assert watched.clock.now - began == 5
    assert not watched.kube.calls


def test_a_wait_ends(watched: Harness) -> None:
    before = watched.clock.now
    assert ask(watched, "generation=2&wait=7")[1]["generation"] == 2
    assert watched.clock.now - before == 7


def test_a_job_that_goes_meanwhile_is_none(watched: Harness) -> None:
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
        ("wait=-1", 400, "wait: must be a whole number, 0 or more"),
        ("wait=1.5", 400, "wait: must be a whole number, 0 or more"),
        ("wait=", 400, "wait: must be a whole number, 0 or more"),
        ("wait=1&wait=2", 400, "wait: is there twice"),
        ("generation=x", 400, "generation: must be a whole number, 0 or more"),
        ("generation=" + "9" * 19, 400, "generation: must be a whole number, 0 or more"),
    ],
)
def test_a_bad_query_is_refused(watched: Harness, query: str, status: int, words: str) -> None:
    assert ask(watched, query) == (status, words)


def test_keys_of_others_are_passed_over(watched: Harness) -> None:
    assert ask(watched, "pretty=1&pretty=2")[0] == 200


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/v2alpha1/rl.cartpole/group/actor", "no such task; the tasks of this job are"),
        (
            "/v2alpha1/rl.cartpole/group/collector",
            "task collector has no process group; it needs a processGroup, if an empty one, or a "
            "rule of the failurePolicy with RestartInPlace",
        ),
        ("/v2alpha1/rl.led/group/learner", "this job has a coordinator"),
        (
            "/v2alpha1/rl.engines/group/learner",
            "task learner has no process group of its own: each of its replicas is one, of 2 pods",
        ),
    ],
)
def test_what_has_no_group_says_so(watched: Harness, path: str, words: str) -> None:
    watched.add(coordinated(name="led"))
    engines = task("learner", 4, podsPerReplica=2, processGroup={"framework": "torch"})
    watched.add(job(name="engines", tasks=[engines]))
    document = json.loads(watched.client.get("/openapi.json").data)
    assert "422" in document["paths"]["/v2alpha1/{id}/group/{task}"]["get"]["responses"]
    status, said = ask(watched, path=path)
    assert status == 422
    assert said.startswith(words)


@pytest.mark.parametrize(
    ("fields", "rules"),
    [
        ({"processGroup": {}}, None),
        ({}, [{"action": "RestartInPlace"}]),
        ({}, [{"action": "Restart"}, {"tasks": ["learner"], "action": "RestartInPlace"}]),
    ],
)
@pytest.mark.parametrize("cached", [True, False])
def test_a_group_need_not_be_elastic(
    harness: Harness, cached: bool, fields: Object, rules: Any
) -> None:
    body = job(tasks=[task("learner", 4, **fields), task()])
    body["status"]["groups"] = {"learner": FORMED}
    if rules is not None:
        body["spec"]["failurePolicy"] = {"rules": rules}
    harness.add(body)
    if cached:
        watch(harness)
    assert ask(harness)[1]["worldSize"] == 2


@pytest.mark.parametrize(
    "policy",
    [
        {"rules": [{"tasks": ["collector"], "action": "RestartInPlace"}]},
        {"rules": [{"tasks": 7, "action": "RestartInPlace"}]},
        {"rules": [{"action": "Restart"}]},
        {"rules": 7},
        7,
    ],
)
@pytest.mark.parametrize("cached", [True, False])
def test_other_rules_make_none(harness: Harness, cached: bool, policy: Any) -> None:
    body = job(tasks=[task("learner", 4), task()])
    body["spec"]["failurePolicy"] = policy
    harness.add(body)
    if cached:
        watch(harness)
    assert ask(harness)[0] == 422


def test_a_job_or_a_task_may_have_any_name(harness: Harness) -> None:
    harness.add(elastic(name="group"), job(name="a", tasks=[task("learner", 1)]))
    assert len(ask(harness, path="/v2alpha1/rl/group/replicas")[1]) == 6
    assert len(ask(harness, path="/v2alpha1/job/rl/group/replicas")[1]) == 6
    for path in ("rl/group", "rl.group", "rl.group.7", "job/rl/group", "job/rl.group"):
        assert ask(harness, path=f"/v2alpha1/{path}/group/learner")[0] == 200
    for path in ("rl/a", "rl.a", "job/rl/a", "job/rl.a"):
        for name in ("replicas", "profilings", "group"):
            status, said = ask(harness, path=f"/v2alpha1/{path}/group/{name}")
            assert (status, said) == (422, "no such task; the tasks of this job are learner")


def test_who_waits_is_answered_when_the_process_ends() -> None:
    clock, ending = Clock(), threading.Event()
    clock.after_sleep = ending.set
    waiting = Waiting(places=4, is_ending=ending.is_set, clock=clock, sleep=clock.sleep)

    began = clock()
    assert waiting.until(JobRef("rl", "a"), lambda: "old", lambda _: False, 20) == "old"
    assert clock() - began < 1


def test_requests_wait_at_their_places_and_the_others_do_not() -> None:
    arrived, leave = threading.Semaphore(0), threading.Event()
    clock = Clock()

    def sleep(_: float) -> None:
        arrived.release()
        assert leave.wait(10)

    waiting = Waiting(places=4, is_ending=lambda: False, clock=clock, sleep=sleep)

    def wait(job: str) -> str | None:
        return waiting.until(JobRef("rl", job), lambda: "old", lambda _: leave.is_set(), 20)

    with ThreadPoolExecutor(4) as pool:
        held = [pool.submit(wait, "a") for _ in range(2)]
        for _ in held:
            assert arrived.acquire(timeout=10)
        # Half of the places are there for others.
        assert wait("a") == "old"
        held += [pool.submit(wait, "b") for _ in range(2)]
        for _ in held[2:]:
            assert arrived.acquire(timeout=10)
        assert wait("c") == "old"
        # Nobody slept for these two.
        assert not arrived.acquire(blocking=False)
        leave.set()
        assert [each.result(10) for each in held] == ["old"] * 4
