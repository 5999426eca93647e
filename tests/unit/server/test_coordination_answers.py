"""Every request of a coordinator has its answer, and every mistake its status."""

from __future__ import annotations

import json
from typing import Any

import pytest
from werkzeug.test import TestResponse

from di_api.kube.errors import Forbidden, Unavailable
from di_api.kube.resources import AGGREGATOR_CONFIGS, NODES, PODS
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
CONFIG = ConfigRef("di-system", "aggregator-config")
_GROUP = (
    replica("cartpole-aggregator-bbbbb", "aggregator"),
    replica(
        "d1",
        "ddp-learner",
        aggregator="cartpole-aggregator-bbbbb",
        resources={"nvidia.com/gpu": 2},
    ),
)


@pytest.fixture
def harness() -> Harness:
    """An open server that knows an AggregatorConfig's name, and one job without replicas."""
    harness = make_harness(config=CONFIG)
    harness.add(coordinated())
    return harness


def _config(port: int | None = None) -> Object:
    return {
        "metadata": {"name": CONFIG.name, "namespace": CONFIG.namespace},
        "spec": {"aggregator": {"template": template(port)}},
    }


def _node(name: str, gpus: int) -> Object:
    return {
        "metadata": {"name": name},
        "status": {"allocatable": {"nvidia.com/gpu": str(gpus)} if gpus else {}},
    }


def _send(
    harness: Harness, method: str = "POST", path: str = PATH, *, pod: str = COORDINATOR, **body: Any
) -> TestResponse:
    data = json.dumps({"namespace": "rl", "coordinator": pod, **body})
    return harness.client.open(path, method=method, data=data)


def _data(answer: TestResponse) -> Any:
    assert answer.status_code == 200, answer.text
    return envelope(answer)["data"]


def _get(harness: Harness, **query: str) -> Any:
    return _data(harness.client.get(PATH, query_string={"namespace": "rl", **query}))


def _replicas(harness: Harness) -> list[Object]:
    found: list[Object] = harness.job()["spec"]["coordinated"]["replicas"]
    return found


@pytest.mark.parametrize("version", ["v1alpha1", "v1alpha2"])
@pytest.mark.parametrize("watched", [False, True])
def test_what_is_created_is_listed_until_it_is_deleted(
    harness: Harness, version: str, watched: bool
) -> None:
    if watched:
        watch(harness)
    path = f"/{version}/replicas"
    empty = {"namespace": "rl", "coordinator": COORDINATOR, "collectors": [], "learners": []}
    assert _get(harness, coordinator=COORDINATOR) == empty
    answer = _send(harness, path=path, collectors={"replicas": 2}, learners={"replicas": 1})
    assert envelope(answer)["message"] == "successfully create replicas"
    created = _data(answer)
    assert (len(created["collectors"]), len(created["learners"])) == (2, 1)
    first, second = created["collectors"]
    assert first.startswith("cartpole-collector-")
    assert first.endswith(".rl:22270")
    assert _get(harness, coordinator=COORDINATOR) == created
    deleted = _data(_send(harness, "DELETE", path, collectors={"replicas": 1}))
    assert deleted == {**empty, "collectors": [second]}
    assert _get(harness, coordinator=COORDINATOR) == {**created, "collectors": [first]}


def test_a_failed_replica_is_replaced_once(harness: Harness) -> None:
    harness.add(coordinated(replica("c1"), replica("c2"), *_GROUP))
    answer = _send(harness, path=FAILED, collectors=["c1", "c1", "x"], learners=["c1"])
    assert envelope(answer)["message"] == "successfully recreate replicas"
    data = _data(answer)
    assert len(data["collectors"]) == 1
    assert data["learners"] == []
    names = [each["name"] for each in _replicas(harness)]
    assert data["collectors"] == [f"{names[0]}.rl:22270"]
    assert names[1:] == ["c2", *(each["name"] for each in _GROUP)]


def test_an_aggregator_reports_and_lists_its_learners(harness: Harness) -> None:
    harness.add(coordinated(replica("c1"), *_GROUP))
    aggregator = _GROUP[0]["name"]
    listed = {
        "namespace": "rl",
        "coordinator": aggregator,
        "collectors": [],
        "learners": ["d1.rl:22271", "d1.rl:22272"],
    }
    for key in ("aggregator", "coordinator", "name"):
        assert _get(harness, **{key: aggregator}) == listed
    data = _data(_send(harness, path=FAILED, pod=aggregator, learners=["d1", "d1"]))
    new = _replicas(harness)[2]
    assert new["aggregator"] == aggregator
    assert data["learners"] == [f"{new['name']}.rl:22271", f"{new['name']}.rl:22272"]
    assert _get(harness, aggregator=aggregator) == data


def test_an_aggregator_may_ask_in_the_place_of_its_coordinator(harness: Harness) -> None:
    harness.add(coordinated(*_GROUP))
    data = _data(_send(harness, pod=_GROUP[0]["name"], collectors={"replicas": 1}))
    assert len(data["collectors"]) == 1
    assert data["coordinator"] == COORDINATOR


def test_nothing_asked_writes_nothing(harness: Harness) -> None:
    for watched in (False, True):
        if watched:
            watch(harness)
        for method, path in (("POST", PATH), ("DELETE", PATH), ("POST", FAILED)):
            data = _data(_send(harness, method, path))
            assert (data["collectors"], data["learners"]) == ([], [])
    assert harness.kube.calls["patch", "dijobs"] == 0


def test_without_a_coordinator_all_that_run_are_listed(harness: Harness) -> None:
    harness.add(
        coordinated(name="second"),
        coordinated(name="third", namespace="other"),
        coordinated(name="done", phase="Succeeded"),
        job("tasks"),
    )
    for watched in (False, True):
        if watched:
            watch(harness)
        of_rl = ["cartpole-coordinator", "second-coordinator"]
        assert [each["coordinator"] for each in _get(harness)] == of_rl
        everywhere = _data(harness.client.get(PATH))
        assert [each["coordinator"] for each in everywhere] == ["third-coordinator", *of_rl]


def test_learners_on_several_gpus_are_spread_over_nodes(harness: Harness) -> None:
    harness.kube.put(AGGREGATOR_CONFIGS, _config(3000))
    for index, gpus in enumerate((8, 8, 0, 4)):
        harness.kube.put(NODES, _node(f"n{index}", gpus))
    data = _data(_send(harness, learners={"replicas": 1, "gpus": 10}))
    aggregator, *parts = _replicas(harness)
    assert data["learners"] == [f"{aggregator['name']}.rl:3000"]
    assert [each["resources"]["nvidia.com/gpu"] for each in parts] == [8, 2]
    assert len(_get(harness, aggregator=aggregator["name"])["learners"]) == 10


def test_nodes_that_may_not_be_read_leave_a_learner_in_one_pod() -> None:
    harness = make_harness(config=CONFIG, watch_nodes=False)
    harness.add(coordinated())
    harness.kube.put(AGGREGATOR_CONFIGS, _config())
    harness.kube.put(NODES, _node("n", 8))
    _data(_send(harness, learners={"replicas": 1, "gpus": 10}))
    assert [each["role"] for each in _replicas(harness)] == ["aggregator", "ddp-learner"]


def test_a_refusal_to_read_nodes_leaves_a_learner_in_one_pod(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.kube.put(AGGREGATOR_CONFIGS, _config())
    usual = harness.kube.list

    def forbidden(resource: Any, *args: Any, **kwargs: Any) -> Any:
        if resource == NODES:
            raise Forbidden(kind="Node", code=403)
        return usual(resource, *args, **kwargs)

    monkeypatch.setattr(harness.kube, "list", forbidden)
    _data(_send(harness, learners={"replicas": 1, "gpus": 10}))
    assert [each["role"] for each in _replicas(harness)] == ["aggregator", "ddp-learner"]


@pytest.mark.parametrize("config", [CONFIG, None])
def test_only_who_needs_an_aggregator_hears_that_there_is_none(config: ConfigRef | None) -> None:
    harness = make_harness(config=config)
    harness.add(coordinated())
    _data(
        _send(harness, learners={"replicas": 1, "gpus": 1}, collectors={"replicas": 1, "gpus": 2})
    )
    _data(_send(harness, learners={"replicas": 0, "gpus": 2}))
    answer = _send(harness, learners={"replicas": 1, "gpus": 2}, collectors={"replicas": 1})
    assert answer.status_code == 404
    assert "AggregatorConfig" in envelope(answer)["message"]
    assert len(_replicas(harness)) == 2


def test_an_aggregator_config_made_a_moment_ago_is_found(harness: Harness) -> None:
    harness.caches.configs.mark_synced()
    harness.kube.put(AGGREGATOR_CONFIGS, _config(3000))
    (aggregator,) = _data(_send(harness, learners={"replicas": 1, "gpus": 2}))["learners"]
    assert aggregator.endswith(":3000")


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("namespace=rl&coordinator=missing-coordinator", 404),
        ("namespace=rl&coordinator=cartpole", 404),
        ("namespace=rl&aggregator=cartpole-aggregator-xxxxx", 404),
        ("namespace=rl&coordinator=tasks-coordinator", 422),
        ("coordinator=cartpole-coordinator", 400),
        ("namespace=rl&foo=1", 400),
        ("namespace=rl&Namespace=rl", 400),
        ("namespace=RL", 400),
    ],
)
def test_bad_queries(harness: Harness, watched: bool, query: str, status: int) -> None:
    harness.add(job("tasks"))
    if watched:
        watch(harness)
    answer = harness.client.get(f"{PATH}?{query}")
    assert (answer.status_code, envelope(answer)["data"]) == (status, None)


def test_a_pod_of_a_job_with_tasks_hears_where_to_ask(harness: Harness) -> None:
    harness.add(job("tasks"))
    answer = harness.client.get(f"{PATH}?namespace=rl&coordinator=tasks-learner-0")
    assert answer.status_code == 404
    assert "/v2alpha1/job/rl.<its name>/replicas" in envelope(answer)["message"]


def test_an_unknown_key_is_named(harness: Harness) -> None:
    answer = harness.client.get(f"{PATH}?foo=1")
    assert envelope(answer)["message"] == "request param foo is not supported"


@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"coordinator": "missing-coordinator"}, 404),
        ({"coordinator": "cartpole-aggregator-xxxxx"}, 404),
        ({"coordinator": "tasks-coordinator"}, 422),
        ({"coordinator": "done-coordinator"}, 409),
        ({"coordinator": "paused-coordinator"}, 409),
        ({"coordinator": "bare-coordinator"}, 422),
        ({"coordinator": None}, 400),
        ({"namespace": None}, 400),
        ({"collectors": 3}, 400),
        ({"collectors": {"replicas": "3"}}, 400),
        ({"collectors": {"replicas": -1}}, 422),
        ({"collectors": {"replicas": 2049}}, 422),
        ({"collectors": {"replicas": 2**63 - 1}}, 422),
        ({"collectors": {"replicas": 1, "cpus": "x"}}, 400),
        ({"learners": {"replicas": 1, "gpus": 10**9}}, 422),
    ],
)
def test_bad_bodies_write_nothing(
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
    asked = {"collectors": {"replicas": 1}, **body}
    answer = harness.client.post(
        PATH, json={"namespace": "rl", "coordinator": COORDINATOR, **asked}
    )
    assert (answer.status_code, envelope(answer)["data"]) == (status, None)
    assert harness.kube.calls["patch", "dijobs"] == 0


def test_a_body_has_to_be_an_object(harness: Harness) -> None:
    for data in (b"", b"[]", b"{", b"\xff"):
        assert harness.client.post(PATH, data=data).status_code == 400


def test_a_list_of_all_pods_fits_in_a_body(harness: Harness) -> None:
    names = [f"{index:063}" for index in range(2048)]
    assert _data(_send(harness, path=FAILED, collectors=names))["collectors"] == []
    assert _send(harness, path=FAILED, collectors=names * 2).status_code == 413


@pytest.mark.parametrize("path", [PATH, FAILED, "/v1alpha2/replicas"])
@pytest.mark.parametrize("method", ["PATCH", "PUT", "OPTIONS"])
def test_other_methods_are_not_implemented(harness: Harness, path: str, method: str) -> None:
    answer = harness.client.open(path, method=method)
    assert answer.status_code == 501
    assert envelope(answer)["message"] == f"{method} not implemented"


def test_failed_replicas_are_reported_and_not_listed(harness: Harness) -> None:
    assert harness.client.get(FAILED).status_code == 501
    assert harness.client.delete(FAILED).status_code == 501


def test_tasks_of_such_a_job_are_not_scaled_and_have_no_addresses(harness: Harness) -> None:
    path = "/v2alpha1/rl.cartpole/replicas"
    assert _data(harness.client.get(path)) == []
    for method in ("POST", "DELETE"):
        answer = harness.client.open(path, method=method, data='{"replicas": 1}')
        assert answer.status_code == 422
        assert "/v1alpha1/replicas" in envelope(answer)["message"]


def test_a_job_made_a_moment_ago_is_found(harness: Harness) -> None:
    watch(harness)
    harness.add(coordinated(name="new"))
    data = _data(_send(harness, pod="new-coordinator", collectors={"replicas": 1}))
    assert _get(harness, coordinator="new-coordinator") == data


def test_a_job_made_anew_under_its_name_is_found(harness: Harness) -> None:
    harness.add(coordinated(phase="Succeeded"))
    watch(harness)
    harness.add(coordinated(uid="uid-2"))
    data = _data(_send(harness, collectors={"replicas": 1}))
    assert _get(harness, coordinator=COORDINATOR) == data


def test_what_another_server_wrote_a_moment_ago_counts(harness: Harness) -> None:
    watch(harness)
    harness.add(coordinated(replica("c1")))
    assert _data(_send(harness, path=FAILED, collectors=["c1"]))["collectors"]
    harness.add(coordinated(replica("c1"), replica("c2")))
    assert _data(_send(harness, collectors={"replicas": 1}))["collectors"]
    assert [each["name"] for each in _replicas(harness)][:2] == ["c1", "c2"]
    harness.add(coordinated(replica("c3")))
    assert _data(_send(harness, "DELETE", collectors={"replicas": 2}))["collectors"] == [
        "c3.rl:22270"
    ]


def test_a_list_is_made_from_the_cache(harness: Harness) -> None:
    watch(harness)
    harness.kube.failure = Unavailable(kind="DIJob")
    assert _get(harness, coordinator=COORDINATOR)["collectors"] == []
    assert len(_get(harness)) == 1
    assert _send(harness, collectors={"replicas": 1}).status_code == 503


def test_a_write_costs_one_request(harness: Harness) -> None:
    watch(harness)
    _data(_send(harness, collectors={"replicas": 100}))
    assert dict(harness.kube.calls) == {("patch", "dijobs"): 1}


def test_jobs_outside_the_served_namespace_do_not_exist() -> None:
    harness = make_harness(watch_namespace="other")
    harness.add(coordinated())
    query = {"namespace": "rl", "coordinator": COORDINATOR}
    assert harness.client.get(PATH, query_string=query).status_code == 404
    assert _get(harness) == []
    assert _data(harness.client.get(PATH)) == []


def test_the_pod_of_an_earlier_job_of_the_name_is_refused(harness: Harness) -> None:
    harness.add_pods(pod(COORDINATOR, "", owner=job(uid="uid-0")))
    for watched in (False, True):
        if watched:
            watch(harness)
        assert _send(harness, collectors={"replicas": 1}).status_code == 403
        query = {"namespace": "rl", "coordinator": COORDINATOR}
        assert harness.client.get(PATH, query_string=query).status_code == 403
    assert _replicas(harness) == []
    # It is gone, and the news has not come yet.
    del harness.kube.objects[PODS.plural, "rl", COORDINATOR]
    _data(_send(harness, collectors={"replicas": 1}))


def test_each_aggregator_has_a_share_of_requests_of_its_own() -> None:
    harness = make_harness(rate=1, burst=2)
    harness.add(coordinated(*_GROUP))
    query = {"namespace": "rl", "coordinator": COORDINATOR}
    assert [harness.client.get(PATH, query_string=query).status_code for _ in range(3)] == [
        200,
        200,
        429,
    ]
    assert _get(harness, aggregator=_GROUP[0]["name"])["learners"]
    for _ in range(2):
        _get(harness)
    assert harness.client.get(f"{PATH}?namespace=rl").status_code == 429


def test_metrics_count_answers_by_operation(harness: Harness) -> None:
    _get(harness, coordinator=COORDINATOR)
    text = harness.client.get("/metrics").text
    assert 'requests_total{code="200",operation="listCoordinatedReplicas"} 1.0' in text


def test_metrics_tell_what_is_cached(harness: Harness) -> None:
    line = 'di_server_watched_objects{resource="dijobs"}'
    assert f"{line} NaN" in harness.client.get("/metrics").text
    watch(harness)
    harness.clock.sleep(1)
    assert f"{line} 1.0" in harness.client.get("/metrics").text
