"""One trace from the request that scaled a job to the pods that are ready for it.

The receiver is a stand-in of this process that takes OTLP over HTTP; the server is its application,
the operator's part its decisions on a cluster in memory.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta

import pytest

from di_api.names import ANNOTATION_TRACE
from di_operator.reconcile.traces import LONGEST, MOST_PODS, NEWS, ScalingTraces
from di_server.config import load_config
from di_service.otlp import Exported
from di_service.settings import SettingsError
from di_service.tracing import OFF, tracing
from tests.fakes.otlp_receiver import OtlpReceiver, receiving
from tests.unit.lifecycle.cluster_model import running, task
from tests.unit.lifecycle.kubelet_model import START
from tests.unit.server.fakes import Harness, make_harness
from tests.unit.server.fakes import job as stored_job

PATH = "/v2alpha1/rl.cartpole/replicas"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
UNSAMPLED = f"{PARENT[:-2]}00"


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with receiving() as found:
        yield found


def scaled(traces: Exported, *, parent: str | None = PARENT) -> Harness:
    """di-server with a job, and one request that scales it."""
    harness = make_harness(traces=traces)
    harness.add(stored_job())
    headers = {} if parent is None else {"traceparent": parent}
    answer = harness.client.post(PATH, json={"task": "collector", "replicas": 2}, headers=headers)
    assert answer.status_code == 200
    return harness


def annotation(harness: Harness) -> str:
    found: str = harness.job()["metadata"]["annotations"][ANNOTATION_TRACE]
    return found


class Traced:
    """The operator at a job, each of whose steps takes a second."""

    def __init__(self, url: str, note: str) -> None:
        self.exported = Exported(url, service="di-operator", ratio=1)
        self.traces = ScalingTraces(self.exported)
        self.cluster = running(task("collector", 2))
        self.cluster.job["metadata"]["annotations"] = {ANNOTATION_TRACE: note}

    def step(self) -> int:
        """One reconcile, as the operator does it; returns the number of its actions."""
        cluster = self.cluster
        began, snapshot = cluster.now, cluster.snapshot()
        decision = cluster.reconcile()
        cluster.pass_time(1)
        acted = len(decision.actions)
        self.traces.reconciled(snapshot, acted=acted, began=began, ended=cluster.now)
        return acted

    def settle(self) -> None:
        for _ in range(10):
            self.step()


def test_a_request_its_reconciles_and_its_pods_are_one_trace(receiver: OtlpReceiver) -> None:
    server = Exported(receiver.url, service="di-server", ratio=1)
    note = annotation(scaled(server))
    server.close()
    parent, _, at = note.partition(" ")

    traced = Traced(receiver.url, f"{parent} {START.isoformat()}")
    traced.cluster.scale("collector", 4)
    traced.settle()
    traced.cluster.run("x-collector-2", "x-collector-3")
    traced.settle()
    traced.exported.close()

    (request,) = receiver.named("addReplicas")
    assert (request.service, request.trace, request.parent) == (
        "di-server",
        "0af7651916cd43dd8448eb211c80319c",
        "b7ad6b7169203331",
    )
    assert request.attributes["dijob"] == "rl.cartpole"
    assert at.startswith("20")
    others = [each for each in receiver.spans if each is not request]
    assert {each.trace for each in others} == {request.trace}
    assert {each.parent for each in others} == {request.span}
    assert {each.service for each in others} == {"di-operator"}
    assert sorted(each.attributes["pod"] for each in receiver.named("pod")) == [
        "x-collector-2",
        "x-collector-3",
    ]
    assert receiver.named("reconcile")
    (whole,) = receiver.named("pods ready")
    assert (whole.attributes["pods"], whole.attributes["new"]) == (4, 2)
    assert whole.seconds >= max(each.seconds for each in receiver.named("pod")) > 0


def test_a_refused_request_is_a_failed_span_without_a_note(receiver: OtlpReceiver) -> None:
    traces = Exported(receiver.url, service="di-server", ratio=1)
    harness = make_harness(traces=traces)
    harness.add(stored_job())
    assert harness.client.post(PATH, json={"replicas": 999}).status_code == 422
    assert harness.client.get(PATH).status_code == 200
    traces.close()
    assert [(each.name, each.failed) for each in receiver.spans] == [("addReplicas", True)]
    assert ANNOTATION_TRACE not in harness.job()["metadata"].get("annotations", {})


@pytest.mark.parametrize(("parent", "ratio"), [(UNSAMPLED, 1.0), (None, 0.0), ("00-no-01", 0.0)])
def test_an_unsampled_request_leaves_no_note(
    receiver: OtlpReceiver, parent: str | None, ratio: float
) -> None:
    traces = Exported(receiver.url, service="di-server", ratio=ratio)
    harness = scaled(traces, parent=parent)
    traces.close()
    assert ANNOTATION_TRACE not in harness.job()["metadata"].get("annotations", {})
    assert receiver.spans == []


def test_an_idempotency_key_and_a_trace_are_noted_together(receiver: OtlpReceiver) -> None:
    traces = Exported(receiver.url, service="di-server", ratio=1)
    harness = make_harness(traces=traces)
    harness.add(stored_job())
    headers = {"Idempotency-Key": "k", "traceparent": PARENT}
    for _ in range(2):
        harness.client.post(PATH, json={"task": "collector", "replicas": 1}, headers=headers)
    traces.close()
    notes = harness.job()["metadata"]["annotations"]
    assert {"diengine/idempotency", ANNOTATION_TRACE} <= {*notes}
    # The second took effect with the first: the pods are the first one's.
    first, _second = receiver.named("addReplicas")
    assert first.span in notes[ANNOTATION_TRACE]


@pytest.mark.proves("metrics.md#server/di-server-request-seconds")
def test_the_histogram_of_requests_names_a_trace(receiver: OtlpReceiver) -> None:
    traces = Exported(receiver.url, service="di-server", ratio=1)
    harness = scaled(traces)
    traces.close()
    answer = harness.client.get("/metrics")
    assert answer.content_type.startswith("application/openmetrics-text")
    exemplar = '# {trace_id="0af7651916cd43dd8448eb211c80319c"}'
    lines = [line for line in answer.text.splitlines() if exemplar in line]
    assert lines
    assert all("di_server_request_seconds_bucket" in line for line in lines)


def test_without_a_receiver_opentelemetry_is_not_imported() -> None:
    assert tracing(None, service="di-server", ratio=1) is OFF
    program = (
        "import sys, di_server.main, di_operator.main\n"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=120).returncode == 0
    harness = make_harness()
    harness.add(stored_job())
    harness.client.post(
        PATH, json={"task": "collector", "replicas": 1}, headers={"traceparent": PARENT}
    )
    assert ANNOTATION_TRACE not in harness.job()["metadata"].get("annotations", {})
    assert harness.client.get("/metrics").content_type.startswith("text/plain")


def test_an_unreachable_receiver_disturbs_no_request() -> None:
    traces = Exported("http://127.0.0.1:9", service="di-server", ratio=1)
    harness = scaled(traces)
    assert annotation(harness)
    traces.close()


@pytest.mark.parametrize(
    "note",
    [
        "",
        "nonsense",
        PARENT,
        f"{PARENT} soon",
        f"00-nothing {START.isoformat()}",
        f"{PARENT} {(START - NEWS - timedelta(minutes=5)).isoformat()}",
    ],
)
def test_an_old_or_unreadable_note_makes_no_spans(receiver: OtlpReceiver, note: str) -> None:
    traced = Traced(receiver.url, note)
    traced.cluster.scale("collector", 4)
    traced.settle()
    traced.exported.close()
    assert receiver.spans == []


def test_traces_are_bounded_in_pods_and_time(receiver: OtlpReceiver) -> None:
    traced = Traced(receiver.url, f"{PARENT} {START.isoformat()}")
    traced.cluster.scale("collector", MOST_PODS + 10)
    traced.settle()
    traced.cluster.run(*(f"x-collector-{number}" for number in range(2, MOST_PODS + 8)))
    traced.settle()
    traced.cluster.pass_time(LONGEST.total_seconds())
    traced.settle()
    traced.cluster.run(f"x-collector-{MOST_PODS + 8}", f"x-collector-{MOST_PODS + 9}")
    traced.settle()
    traced.exported.close()
    assert len(receiver.named("pod")) == MOST_PODS
    assert receiver.named("pods ready") == []


def test_a_bad_receiver_address_is_refused_at_the_start() -> None:
    assert load_config([], {"DI_SERVER_TRACES": "http://otel:4318"}).traces == "http://otel:4318"
    for wrong in ("otel:4318", "grpc://otel:4317", "http://"):
        with pytest.raises(SettingsError, match="DI_SERVER_TRACES"):
            load_config([], {"DI_SERVER_TRACES": wrong})
