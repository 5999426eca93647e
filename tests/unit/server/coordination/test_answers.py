"""Every request of a coordinator has its answer, and every mistake its status."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from di_kube.errors import Forbidden, Unavailable
from di_kube.resources import AGGREGATOR_CONFIGS, NODES, PODS
from di_server.model.references import ConfigRef
from tests.unit.server.fakes import (
    Harness,
    Object,
    coordinated,
    job,
    make_harness,
    pod,
    replica,
    template,
    watch,
)
from tests.unit.server.test_answers import envelope

PATH = "/v1alpha1/replicas"
FAILED = f"{PATH}/failed"
COORDINATOR = "cartpole-coordinator"
AGGREGATOR = "cartpole-aggregator-bbbbb"
CONFIG = ConfigRef("di-system", "aggregator-config")
ONE: Object = {"collectors": {"replicas": 1}}
TEN_GPUS: Object = {"learners": {"replicas": 1, "gpus": 10}}
GROUP = (
    replica(AGGREGATOR, "aggregator"),
    replica("d1", "ddp-learner", aggregator=AGGREGATOR, resources={"nvidia.com/gpu": 2}),
)


@pytest.fixture
def harness() -> Harness:
    """An open server that knows an AggregatorConfig's name, and one job without replicas."""
    harness = make_harness(config=CONFIG)
    harness.add(coordinated())
    return harness


def _put_config(harness: Harness, port: int | None = None) -> None:
    metadata = {"name": CONFIG.name, "namespace": CONFIG.namespace}
    spec = {"aggregator": {"template": template(port)}}
    harness.kube.put(AGGREGATOR_CONFIGS, {"metadata": metadata, "spec": spec})


def _put_nodes(harness: Harness, *gpus: int) -> None:
    for index, count in enumerate(gpus):
        allocatable = {"nvidia.com/gpu": str(count)} if count else {}
        node = {"metadata": {"name": f"n{index}"}, "status": {"allocatable": allocatable}}
        harness.kube.put(NODES, node)


def _ask(
    harness: Harness, body: Object, method: str = "POST", path: str = PATH, pod: str = COORDINATOR
) -> tuple[int, Any]:
    whole = {"namespace": "rl", "coordinator": pod, **body}
    return harness.ask(path, whole, method=method)


def _send(harness: Harness, body: Object, *request: str, **more: str) -> Any:
    status, data = _ask(harness, body, *request, **more)
    assert status == 200, data
    return data


def _get(harness: Harness, **query: str) -> Any:
    text = "&".join(f"{key}={value}" for key, value in {"namespace": "rl", **query}.items())
    status, data = harness.ask(f"{PATH}?{text}")
    assert status == 200, data
    return data


def _replicas(harness: Harness) -> list[Object]:
    found: list[Object] = harness.job()["spec"]["coordinated"]["replicas"]
    return found


def _live_and_watched(harness: Harness) -> Iterator[None]:
    """Once without and once with filled caches."""
    yield
    watch(harness)
    yield


@pytest.mark.proves(
    "rest.md#di-server-jobs-over-rest/asks-for",
    "rest.md#operations-of-coordinators/get",
    "rest.md#operations-of-coordinators/post-replicas",
    "rest.md#operations-of-coordinators/delete",
)
@pytest.mark.parametrize("version", ["v1alpha1", "v1alpha2"])
@pytest.mark.parametrize("watched", [False, True])
def test_created_replicas_are_listed_until_they_are_deleted(
    harness: Harness, version: str, watched: bool
) -> None:
    if watched:
        watch(harness)
    path = f"/{version}/replicas"
    empty = {"namespace": "rl", "coordinator": COORDINATOR, "collectors": [], "learners": []}
    assert _get(harness, coordinator=COORDINATOR) == empty
    asked = {"collectors": {"replicas": 2}, "learners": {"replicas": 1}}
    whole = {"namespace": "rl", "coordinator": COORDINATOR, **asked}
    answer = envelope(harness.client.post(path, json=whole))
    assert answer["message"] == "successfully create replicas"
    created = answer["data"]
    first, second = created["collectors"]
    assert len(created["learners"]) == 1
    assert first.startswith("cartpole-collector-")
    assert first.endswith(".rl:22270")
    assert _get(harness, coordinator=COORDINATOR) == created
    assert _send(harness, ONE, "DELETE", path) == {**empty, "collectors": [second]}
    assert _get(harness, coordinator=COORDINATOR) == {**created, "collectors": [first]}


@pytest.mark.proves(
    "rest.md#operations-of-coordinators/post-replicas-failed",
    "rest.md#di-server-jobs-over-rest/a-retry",
)
def test_a_failed_replica_is_replaced_once(harness: Harness) -> None:
    harness.add(coordinated(replica("c1"), replica("c2"), *GROUP))
    failed: Object = {"collectors": ["c1", "c1", "x"], "learners": ["c1"]}
    whole = {"namespace": "rl", "coordinator": COORDINATOR, **failed}
    answer = envelope(harness.client.post(FAILED, json=whole))
    assert answer["message"] == "successfully recreate replicas"
    names = [each["name"] for each in _replicas(harness)]
    data = answer["data"]
    assert (data["collectors"], data["learners"]) == ([f"{names[0]}.rl:22270"], [])
    assert names[1:] == ["c2", *(each["name"] for each in GROUP)]


def test_an_aggregator_reports_and_lists_its_learners(harness: Harness) -> None:
    harness.add(coordinated(replica("c1"), *GROUP))
    listed = {
        "namespace": "rl",
        "coordinator": AGGREGATOR,
        "collectors": [],
        "learners": ["d1.rl:22271", "d1.rl:22272"],
    }
    for key in ("aggregator", "coordinator", "name"):
        assert _get(harness, **{key: AGGREGATOR}) == listed
    data = _send(harness, {"learners": ["d1", "d1"]}, "POST", FAILED, AGGREGATOR)
    new = _replicas(harness)[2]
    assert new["aggregator"] == AGGREGATOR
    assert data["learners"] == [f"{new['name']}.rl:22271", f"{new['name']}.rl:22272"]
    assert _get(harness, aggregator=AGGREGATOR) == data
    # It may send a request in place of its coordinator.
    created = _send(harness, ONE, pod=AGGREGATOR)
    assert (created["coordinator"], len(created["collectors"])) == (COORDINATOR, 1)


def test_an_empty_request_writes_nothing(harness: Harness) -> None:
    for _ in _live_and_watched(harness):
        for method, path in (("POST", PATH), ("DELETE", PATH), ("POST", FAILED)):
            data = _send(harness, {}, method, path)
            assert (data["collectors"], data["learners"]) == ([], [])
    assert harness.kube.calls["patch", "dijobs"] == 0


def test_without_a_coordinator_all_running_jobs_are_listed(harness: Harness) -> None:
    harness.add(
        coordinated(name="second"),
        coordinated(name="third", namespace="other"),
        coordinated(name="done", phase="Succeeded"),
        job("tasks"),
    )
    of_rl = [COORDINATOR, "second-coordinator"]
    for _ in _live_and_watched(harness):
        assert [each["coordinator"] for each in _get(harness)] == of_rl
        everywhere = harness.ask(PATH)[1]
        assert [each["coordinator"] for each in everywhere] == ["third-coordinator", *of_rl]


def test_learners_on_several_gpus_are_spread_over_nodes(harness: Harness) -> None:
    # As just made: the cache, which is filled, does not have the configuration yet.
    harness.caches.configs.mark_synced()
    _put_config(harness, 3000)
    _put_nodes(harness, 8, 8, 0, 4)
    data = _send(harness, TEN_GPUS)
    aggregator, *parts = _replicas(harness)
    assert data["learners"] == [f"{aggregator['name']}.rl:3000"]
    assert [each["resources"]["nvidia.com/gpu"] for each in parts] == [8, 2]
    assert len(_get(harness, aggregator=aggregator["name"])["learners"]) == 10


@pytest.mark.parametrize("is_refused", [True, False])
def test_without_access_to_nodes_a_learner_has_one_pod(
    is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = make_harness(config=CONFIG, watch_nodes=is_refused)
    harness.add(coordinated())
    _put_config(harness)
    _put_nodes(harness, 8)
    usual = harness.kube.list

    def forbidden(resource: Any, *args: Any, **kwargs: Any) -> Any:
        if resource == NODES:
            raise Forbidden(kind="Node", code=403)
        return usual(resource, *args, **kwargs)

    monkeypatch.setattr(harness.kube, "list", forbidden)
    _send(harness, TEN_GPUS)
    assert [each["role"] for each in _replicas(harness)] == ["aggregator", "ddp-learner"]


@pytest.mark.proves("rest.md#answers/404")
@pytest.mark.parametrize("config", [CONFIG, None])
def test_only_a_learner_on_several_gpus_needs_an_aggregator_config(
    config: ConfigRef | None,
) -> None:
    harness = make_harness(config=config)
    harness.add(coordinated())
    one = {"replicas": 1, "gpus": 1}
    _send(harness, {"learners": one, "collectors": one | {"gpus": 2}})
    _send(harness, {"learners": {"replicas": 0, "gpus": 2}})
    status, message = _ask(harness, ONE | {"learners": one | {"gpus": 2}})
    assert (status, "AggregatorConfig" in message) == (404, True)
    assert len(_replicas(harness)) == 2


NOT_SUPPORTED = "request param foo is not supported"
OF_TASKS = "namespace=rl&coordinator=tasks-learner-0"


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("namespace=rl&coordinator=missing-coordinator", 404, ""),
        ("namespace=rl&coordinator=cartpole", 404, ""),
        (f"namespace=rl&aggregator={AGGREGATOR}", 404, ""),
        ("namespace=rl&coordinator=tasks-coordinator", 422, ""),
        (OF_TASKS, 404, "/v2alpha1/job/rl.<its name>/replicas"),
        (f"coordinator={COORDINATOR}", 400, ""),
        ("foo=1", 400, NOT_SUPPORTED),
        ("namespace=rl&Namespace=rl", 400, ""),
        ("namespace=RL", 400, ""),
    ],
)
def test_a_bad_query_is_refused(
    harness: Harness, watched: bool, query: str, status: int, words: str
) -> None:
    harness.add(job("tasks"))
    if watched:
        watch(harness)
    code, message = harness.ask(f"{PATH}?{query}")
    assert (code, words in message) == (status, True)


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize(
    ("body", "status"),
    [
        *(({"coordinator": name}, 404) for name in ("missing-coordinator", AGGREGATOR)),
        *(({"coordinator": f"{name}-coordinator"}, 422) for name in ("tasks", "bare")),
        *(({"coordinator": f"{name}-coordinator"}, 409) for name in ("done", "paused")),
        ({"namespace": None}, 400),
        ({"collectors": {"replicas": "3"}}, 400),
        ({"collectors": {"replicas": 2049}}, 422),
        ({"learners": {"replicas": 1, "gpus": 10**9}}, 422),
    ],
)
def test_a_bad_body_writes_nothing(
    harness: Harness, watched: bool, body: dict[str, Any], status: int
) -> None:
    harness.add(
        job("tasks"),
        coordinated(name="done", phase="Failed"),
        coordinated(name="paused", suspend=True),
        coordinated(name="bare", roles=()),
    )
    if watched:
        watch(harness)
    assert _ask(harness, ONE | body)[0] == status
    assert harness.kube.calls["patch", "dijobs"] == 0


def test_a_body_that_is_no_object_or_too_long_is_refused(harness: Harness) -> None:
    for data in (b"", b"[]", b"{", b"\xff"):
        assert harness.ask(PATH, data)[0] == 400
    names = [f"{index:063}" for index in range(2048)]
    assert _send(harness, {"collectors": names}, "POST", FAILED)["collectors"] == []
    assert _ask(harness, {"collectors": names * 2}, "POST", FAILED)[0] == 413


@pytest.mark.proves("rest.md#answers/501")
@pytest.mark.parametrize(
    ("method", "path"),
    [
        *(
            (method, path)
            for method in ("PATCH", "PUT", "OPTIONS")
            for path in (PATH, FAILED, "/v1alpha2/replicas")
        ),
        *((method, FAILED) for method in ("GET", "DELETE")),
    ],
)
def test_other_methods_are_not_implemented(harness: Harness, path: str, method: str) -> None:
    answer = harness.client.open(path, method=method)
    assert answer.status_code == 501
    assert envelope(answer)["message"] == f"{method} not implemented"


def test_a_coordinated_job_has_no_tasks_to_scale(harness: Harness) -> None:
    path = "/v2alpha1/rl.cartpole/replicas"
    assert harness.ask(path) == (200, [])
    for method in ("POST", "DELETE"):
        status, message = harness.ask(path, {"replicas": 1}, method=method)
        assert (status, "/v1alpha1/replicas" in message) == (422, True)


def test_a_job_newer_than_the_cache_is_found(harness: Harness) -> None:
    harness.add(coordinated(phase="Succeeded"))
    watch(harness)
    harness.add(coordinated(name="new"), coordinated(uid="uid-2"))
    for name in ("new-coordinator", COORDINATOR):
        created = _send(harness, ONE, pod=name)
        assert _get(harness, coordinator=name) == created


def test_changes_by_another_server_count(harness: Harness) -> None:
    watch(harness)
    harness.add(coordinated(replica("c1")))
    assert _send(harness, {"collectors": ["c1"]}, "POST", FAILED)["collectors"]
    harness.add(coordinated(replica("c1"), replica("c2")))
    assert _send(harness, ONE)["collectors"]
    assert [each["name"] for each in _replicas(harness)][:2] == ["c1", "c2"]
    harness.add(coordinated(replica("c3")))
    deleted = _send(harness, {"collectors": {"replicas": 2}}, "DELETE")
    assert deleted["collectors"] == ["c3.rl:22270"]


def test_a_list_costs_no_request_and_a_write_costs_one(harness: Harness) -> None:
    watch(harness)
    _send(harness, {"collectors": {"replicas": 100}})
    assert dict(harness.kube.calls) == {("patch", "dijobs"): 1}
    harness.kube.failure = Unavailable(kind="DIJob")
    assert len(_get(harness, coordinator=COORDINATOR)["collectors"]) == 100
    assert len(_get(harness)) == 1
    assert _ask(harness, ONE)[0] == 504


def test_jobs_outside_the_served_namespace_do_not_exist() -> None:
    harness = make_harness(watch_namespace="other")
    harness.add(coordinated())
    assert harness.ask(f"{PATH}?namespace=rl&coordinator={COORDINATOR}")[0] == 404
    assert _get(harness) == []
    assert harness.ask(PATH) == (200, [])


def test_the_pod_of_an_earlier_job_of_the_name_is_refused(harness: Harness) -> None:
    harness.add_pods(pod(COORDINATOR, "", owner=job(uid="uid-0")))
    for _ in _live_and_watched(harness):
        assert _ask(harness, ONE)[0] == 403
        assert harness.ask(f"{PATH}?namespace=rl&coordinator={COORDINATOR}")[0] == 403
    assert _replicas(harness) == []
    # It is deleted, and the watch has not shown that yet.
    del harness.kube.objects[PODS.plural, "rl", COORDINATOR]
    _send(harness, ONE)


def test_each_aggregator_has_a_share_of_requests_of_its_own() -> None:
    harness = make_harness(rate=1, burst=2)
    harness.add(coordinated(*GROUP))
    path = f"{PATH}?namespace=rl&coordinator={COORDINATOR}"
    assert [harness.ask(path)[0] for _ in range(3)] == [200, 200, 429]
    assert _get(harness, aggregator=AGGREGATOR)["learners"]
    for _ in range(2):
        _get(harness)
    assert harness.ask(f"{PATH}?namespace=rl")[0] == 429


def test_metrics_count_answers_by_operation_and_show_cached_objects(harness: Harness) -> None:
    _get(harness, coordinator=COORDINATOR)
    line = 'di_server_watched_objects{resource="dijobs"}'
    text = harness.client.get("/metrics").text
    assert 'requests_total{code="200",operation="listCoordinatedReplicas"} 1.0' in text
    assert f"{line} NaN" in text
    watch(harness)
    harness.clock.sleep(1)
    assert f"{line} 1.0" in harness.client.get("/metrics").text
