"""Routes, limits, metrics and log lines of the Flask application."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
import structlog
from flask.testing import FlaskClient
from structlog.testing import CapturingLogger

from di_webhook import admission
from di_webhook.app import create_app
from di_webhook.metrics import Metrics
from di_webhook.probes import probe_pages
from tests.unit.webhook.reviews import UID, job, review

LIMIT = 64 * 1024


class Service:
    """The application with everything it was given."""

    def __init__(self) -> None:
        self.ready = True
        self.metrics = Metrics(monotonic=lambda: 0.0)
        self.lines = CapturingLogger()
        ticks = count()
        log: Any = structlog.wrap_logger(
            self.lines, processors=[], wrapper_class=structlog.make_filtering_bound_logger(20)
        )
        self.client: FlaskClient = create_app(
            metrics=self.metrics,
            log=log,
            pages=probe_pages(metrics=self.metrics, is_ready=lambda: self.ready),
            monotonic=lambda: float(next(ticks)),
            max_body_bytes=LIMIT,
        ).test_client()

    def count(self, webhook: str, outcome: str) -> float:
        labels = {"webhook": webhook, "outcome": outcome}
        value = self.metrics.registry.get_sample_value("di_webhook_admissions_total", labels)
        return value or 0.0


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
@pytest.mark.parametrize("content_type", ["application/json", "text/plain"])
def test_a_review_is_answered_and_counted(service: Service, path: str, content_type: str) -> None:
    answer = service.client.post(path, data=review(job()), content_type=content_type)
    assert answer.status_code == 200
    assert answer.get_json()["response"] == {"uid": UID, "allowed": True}
    assert service.count(path[1:], "allowed") == 1


def test_a_refusal_is_logged_with_its_reason_alone(service: Service) -> None:
    service.client.post("/validate", data=review(job()))
    assert service.lines.calls == []
    service.client.post("/validate", data=review(job(tasks=[])))
    (line,) = service.lines.calls
    assert line.kwargs["outcome"] == "denied"
    assert line.kwargs["uid"] == UID
    assert "spec.tasks" in line.kwargs["message"]


def test_a_body_above_the_limit_is_refused_before_it_is_read(service: Service) -> None:
    stream = Stream(limit=0)
    answer = service.client.post(
        "/validate", environ_overrides={"wsgi.input": stream, "CONTENT_LENGTH": str(LIMIT + 1)}
    )
    assert answer.status_code == 413
    assert str(LIMIT) in answer.get_json()["message"]
    assert service.count("validate", "malformed") == 1


def test_a_chunked_body_above_the_limit_is_refused(service: Service) -> None:
    answer = service.client.post(
        "/validate",
        environ_overrides={
            "wsgi.input": Stream(limit=2 * LIMIT),
            "wsgi.input_terminated": True,
            "HTTP_TRANSFER_ENCODING": "chunked",
        },
    )
    assert answer.status_code == 413


class Stream:
    """A body that never ends; fails the test once more than `limit` bytes of it are read."""

    def __init__(self, *, limit: int) -> None:
        self._left = limit

    def read(self, size: int = -1) -> bytes:
        assert size >= 0, "the body is read without a bound"
        self._left -= size
        assert self._left >= 0, "more of the body is read than is needed"
        return b" " * size


def test_a_malformed_review_is_400(service: Service) -> None:
    answer = service.client.post("/validate", data=b"not json")
    assert answer.status_code == 400
    assert "not JSON" in answer.get_json()["message"]
    assert service.count("validate", "malformed") == 1


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/validate", 405), ("POST", "/elsewhere", 404)]
)
def test_wrong_methods_and_paths_are_answered_in_json(
    service: Service, method: str, path: str, status: int
) -> None:
    answer = service.client.open(path, method=method)
    assert answer.status_code == status
    assert answer.get_json()["message"]
    if status == 405:
        assert "POST" in answer.headers["Allow"]


@pytest.mark.proves("metrics.md#webhook/di-webhook-faults-total")
def test_an_exception_in_a_rule_leaves_the_failure_policy_to_decide(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(admission, "job_errors", broken)
    answer = service.client.post("/validate", data=review(job()))
    assert answer.status_code == 503
    assert "secret detail" not in answer.get_data(as_text=True)
    assert service.metrics.registry.get_sample_value("di_webhook_faults_total") == 1
    (line,) = service.lines.calls
    assert "ZeroDivisionError" in line.kwargs["error"]


def test_readiness_follows_the_certificate_and_liveness_does_not(service: Service) -> None:
    assert service.client.get("/readyz").status_code == 200
    service.ready = False
    assert service.client.get("/readyz").status_code == 503
    assert service.client.get("/healthz").status_code == 200


@pytest.mark.proves(
    "metrics.md#webhook/di-webhook-admission-seconds",
    "metrics.md#webhook/di-webhook-admissions-total",
)
def test_metrics_are_exposed(service: Service) -> None:
    service.client.post("/validate", data=review(job()))
    text = service.client.get("/metrics").get_data(as_text=True)
    assert 'di_webhook_admissions_total{outcome="allowed",webhook="validate"} 1.0' in text
    assert "di_webhook_admission_seconds_bucket" in text


def test_both_ports_share_one_rendering_of_metrics(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    renderings: list[object] = []

    def render(registry: object) -> bytes:
        renderings.append(registry)
        return b"text"

    monkeypatch.setattr("di_webhook.metrics.generate_latest", render)
    pages = probe_pages(metrics=service.metrics, is_ready=lambda: True)
    for _ in range(50):
        assert service.client.get("/metrics").data == pages["/metrics"]().body == b"text"
    assert len(renderings) == 1


def test_the_port_without_tls_serves_probes_only() -> None:
    pages = probe_pages(metrics=Metrics(monotonic=lambda: 0.0), is_ready=lambda: True)
    assert [*pages] == ["/healthz", "/readyz", "/metrics"]
    assert [page().status for page in pages.values()] == [200] * 3


def test_a_conversion_is_answered_and_counted(service: Service) -> None:
    request = {"uid": UID, "desiredAPIVersion": "diengine.opendilab.org/v1alpha2"}
    review_of_conversion = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": {**request, "objects": [job()]},
    }
    answer = service.client.post("/convert", json=review_of_conversion)
    assert answer.status_code == 200
    [converted] = answer.get_json()["response"]["convertedObjects"]
    assert converted["apiVersion"] == request["desiredAPIVersion"]
    assert service.count("convert", "converted") == 1
    # The rule, at every change of every job: not worth a line.
    assert service.lines.calls == []
    assert service.client.post("/convert", data=b" " * (LIMIT + 1)).status_code == 413
