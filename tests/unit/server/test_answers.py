"""Every answer has one shape, and every mistake its status."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from openapi_spec_validator import validate
from werkzeug.test import TestResponse

from di_kube.errors import Unavailable
from tests.unit.server.fakes import Harness, coordinated, make_harness, pod
from tests.unit.server.fakes import job as make_job

PATH = "/v2alpha1/rl.cartpole/replicas"


def envelope(answer: TestResponse) -> dict[str, Any]:
    """The answer, after checking what is true of all of them."""
    assert answer.mimetype == "application/json"
    found: dict[str, Any] = json.loads(answer.data)
    assert list(found) == ["success", "code", "message", "data"]
    assert found["success"] is (answer.status_code == 200) is (found["code"] == 0)
    assert found["message"]
    assert "'" not in answer.text
    return found


@pytest.mark.proves(
    "rest.md#operations-on-tasks/post-id-replicas", "rest.md#di-server-jobs-over-rest/path"
)
@pytest.mark.parametrize(
    "path",
    [
        "/v2alpha1/rl.cartpole/replicas",
        "/v2alpha1/rl.cartpole.7/replicas",
        "/v2alpha1/rl/cartpole/replicas",
        "/v2alpha1/job/rl.cartpole/replicas",
        "/v2alpha1/job/rl.cartpole.7/replicas",
        "/v2alpha1/job/rl/cartpole/replicas",
    ],
)
def test_every_form_of_the_path_scales(harness: Harness, path: str) -> None:
    added = envelope(harness.client.post(path, data='{"replicas": 2, "cpu": "1"}'))
    removed = envelope(harness.client.delete(path, data='{"replicas": 1, "task": null}'))
    assert added["data"] == {"task": "collector", "replicas": 4}
    assert removed["data"] == {"task": "collector", "replicas": 3}
    assert harness.replicas() == 3


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/xml", "application/json"])
def test_the_content_type_does_not_matter(harness: Harness, content_type: str) -> None:
    headers = {"Content-Type": content_type} if content_type else {}
    answer = harness.client.post(PATH, data='{"replicas": 1}', headers=headers)
    assert (answer.status_code, harness.replicas()) == (200, 3)


@pytest.mark.proves("rest.md#answers/400")
@pytest.mark.parametrize(
    ("status", "body"),
    [
        *((400, body) for body in ("", "not JSON", "[]", "{}", '{"replicas": 1, "replicas": 2}')),
        *(
            (400, f'{{"replicas": {value}}}')
            for value in ('"two"', '"2"', "1.5", "true", "null", "[]", "NaN", '1, "task": 7')
        ),
        *((422, f'{{"replicas": {value}}}') for value in ("0", "-1", "2147483648")),
        *((422, f'{{"replicas": 1, "task": {value}}}') for value in ('""', '"it\'s"')),
    ],
)
@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_a_bad_body_changes_nothing(harness: Harness, method: str, body: str, status: int) -> None:
    answer = harness.client.open(PATH, method=method, data=body)
    assert answer.status_code == status
    envelope(answer)
    assert harness.replicas() == 2
    assert harness.kube.calls["patch", "dijobs"] == 0


def test_a_misspelt_field_or_path_is_named(harness: Harness) -> None:
    status, message = harness.ask(PATH, {"replica": 1})
    assert status == 400
    assert message.startswith("replicas: is missing, a whole number")
    status, message = harness.ask("/v2alpha1/job/cartpole/replicas")
    assert status == 400
    assert message.startswith("job/cartpole lacks the namespace")


@pytest.mark.proves("rest.md#answers/404", "rest.md#answers/405")
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v2alpha1/rl.missing/replicas", 404),
        ("GET", "/v2alpha1/RL.cartpole/replicas", 400),
        ("GET", "/v2alpha1//rl.cartpole/replicas", 400),
        ("GET", "/v2alpha1/rl.cart%00pole/replicas", 400),
        ("GET", "/v2alpha1/rl%0a.cartpole/replicas", 400),
        ("GET", "/v2alpha1/..%2f..%2fapi/replicas", 400),
        ("GET", f"/v2alpha1/{'a' * 50_000}/replicas", 400),
        ("GET", "/v2alpha1/rl.cartpole/replicas/", 404),
        ("GET", "/v2alpha1/replicas", 404),
        ("GET", "/v2alpha1", 404),
        ("GET", "/", 404),
        ("PATCH", PATH, 405),
        ("OPTIONS", PATH, 405),
        ("DELETE", "/v2alpha1/rl.cartpole/profilings", 405),
        ("POST", "/healthz", 405),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else None,
)
def test_a_bad_path_or_method_has_its_status(
    harness: Harness, method: str, path: str, status: int
) -> None:
    answer = harness.client.open(path, method=method)
    assert answer.status_code == status
    envelope(answer)
    assert status != 405 or answer.headers["Allow"]


def test_a_base_url_that_ends_in_a_slash_works(harness: Harness) -> None:
    answer = harness.client.post(
        "/", data='{"replicas": 1}', environ_overrides={"PATH_INFO": f"/{PATH}"}
    )
    assert envelope(answer)["data"] == {"task": "collector", "replicas": 3}


def test_jobs_outside_the_served_namespace_do_not_exist() -> None:
    harness = make_harness(watch_namespace="other")
    harness.add(make_job())
    assert harness.client.get(PATH).status_code == 404


def test_an_unexpected_exception_is_answered_with_an_envelope(
    harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    del harness.job()["spec"]
    answer = harness.client.get(PATH)
    assert answer.status_code == 500
    assert "KeyError" not in envelope(answer)["message"]
    assert "request failed" in capsys.readouterr().out


_NAMES = {
    "id": "rl.cartpole",
    "namespace": "rl",
    "name": "cartpole",
    "task": "learner",
    "pod": "cartpole-learner-0",
    "dataset": "prompts",
}


def test_the_openapi_document_is_valid_and_has_every_route(harness: Harness) -> None:
    document = json.loads(harness.client.get("/openapi.json").data)
    validate(document)
    harness.add(coordinated(name="led"))
    harness.add_pods(pod("cartpole-learner-0", 0))
    body = {"replicas": 1, "namespace": "rl", "coordinator": "led-coordinator", "url": "http://x"}
    body |= {"size": 9, "worker": "w", "after": 0}
    assert harness.ask("/v2alpha1/rl.cartpole/shards/prompts", body)[0] == 200
    harness.job()["spec"]["tasks"][0] |= {"processGroup": {"elastic": True}}
    assert len(document["paths"]) == 32 + 4
    for template, path in document["paths"].items():
        concrete = template.format(**_NAMES)
        for method in path.keys() - {"parameters"}:
            harness.job()["spec"]["tasks"][1]["replicas"] = 2
            answer = harness.client.open(concrete, method=method.upper(), json=body)
            assert answer.status_code == 200, (method, concrete)


@pytest.mark.parametrize("method", ["PUT", "PATCH", "TRACE"])
def test_answers_to_other_methods_are_documented(harness: Harness, method: str) -> None:
    paths = json.loads(harness.client.get("/openapi.json").data)["paths"]
    for template, path in paths.items():
        concrete = template.format(**_NAMES)
        status = str(harness.client.open(concrete, method=method).status_code)
        for operation in path.keys() - {"parameters"}:
            assert status in path[operation]["responses"]


@pytest.mark.proves("operations.md#availability/the-api-server")
def test_readiness_follows_the_api_server_and_liveness_does_not(harness: Harness) -> None:
    def codes() -> tuple[int, int]:
        return harness.ask("/healthz")[0], harness.ask("/readyz")[0]

    assert codes() == (200, 200)
    harness.kube.failure = Unavailable(kind="DIJob")
    harness.clock.sleep(1)
    assert codes() == (200, 503)
    # For a second the answer is cached.
    harness.kube.failure = None
    assert codes() == (200, 503)
    harness.clock.sleep(1)
    assert codes() == (200, 200)


def test_readiness_needs_a_certificate_and_ends_with_the_drain(harness: Harness) -> None:
    harness.certified.clear()
    assert harness.ask("/readyz")[0] == 503
    harness.certified.set()
    assert harness.ask("/readyz")[0] == 200
    harness.draining.set()
    assert harness.ask("/readyz")[0] == 503


def test_a_slow_api_server_holds_one_probe_and_others_get_the_last_answer(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert harness.ask("/readyz")[0] == 200
    harness.clock.sleep(1)
    asked, answers = threading.Event(), threading.Event()
    timeouts: list[float | None] = []

    def slow(*_: object, timeout: float | None, **__: object) -> tuple[list[Any], str]:
        timeouts.append(timeout)
        asked.set()
        assert answers.wait(60)
        return [], "1"

    monkeypatch.setattr(harness.kube, "list", slow)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(harness.client.application.test_client().get, "/readyz")
        assert asked.wait(60)
        # Meanwhile others get the answer before it.
        assert harness.ask("/readyz")[0] == 200
        answers.set()
        assert first.result(60).status_code == 200
    assert timeouts == [5.0]


@pytest.mark.proves("metrics.md#server/di-server-requests-total")
def test_metrics_count_answers_by_operation(harness: Harness) -> None:
    harness.client.get(PATH)
    harness.client.get("/nothing/here")
    text = harness.client.get("/metrics").text
    assert 'di_server_requests_total{code="200",operation="listReplicas"} 1.0' in text
    assert 'di_server_requests_total{code="404",operation="none"} 1.0' in text


def test_metrics_are_rendered_once_a_second_however_many_ask(harness: Harness) -> None:
    first = harness.client.get("/metrics").data
    assert {harness.client.get("/metrics").data for _ in range(20)} == {first}
    harness.clock.sleep(1)
    assert b'code="200",operation="metrics"} 21.0' in harness.client.get("/metrics").data
