"""Traces are off; with a receiver the two services that make them know it, and may reach it."""

from __future__ import annotations

import pytest

from di_operator.config import load_config as operator_config
from di_server.config import load_config as server_config
from tests.chart.chart import Chart, Refused

URL = "http://otel-collector.monitoring:4318"
ON = f"tracing.endpoint={URL}"


def test_tracing_is_off_by_default(chart: Chart) -> None:
    rendered = chart.render("networkPolicy.enabled=true")
    for component in ("server", "operator"):
        data = rendered.one("ConfigMap", f"di-{component}")["data"]
        assert data[f"DI_{component.upper()}_TRACES"] == ""
        policy = rendered.one("NetworkPolicy", f"di-{component}")
        assert "4318" not in str(policy)
    written = rendered.one("ValidatingAdmissionPolicy", "di-di-orchestrator-server-jobs")
    assert "diengine/trace" not in str(written)


@pytest.mark.proves("operations.md#values/tracing-endpoint")
def test_both_services_get_and_may_reach_the_receiver(chart: Chart) -> None:
    rendered = chart.render(ON, "tracing.ratio=0", "networkPolicy.enabled=true")
    server = server_config([], rendered.one("ConfigMap", "di-server")["data"])
    settings = {
        **rendered.one("ConfigMap", "di-operator")["data"],
        "DI_OPERATOR_NAMESPACE": "di-system",
    }
    operator = operator_config([], settings, random_identity=str)
    assert (server.traces, server.trace_ratio) == (URL, 0.0)
    assert (operator.traces, operator.trace_ratio) == (URL, 0.0)
    for component in ("server", "operator"):
        egress = rendered.one("NetworkPolicy", f"di-{component}")["spec"]["egress"]
        assert {"ports": [{"protocol": "TCP", "port": 4318}]} in egress


def test_the_server_may_annotate_a_trace_only(chart: Chart) -> None:
    policy = chart.render(ON).one("ValidatingAdmissionPolicy", "di-di-orchestrator-server-jobs")
    found = policy["spec"]["validations"][1]
    assert (
        "['diengine/changed-by', 'diengine/idempotency', 'diengine/trace']" in found["expression"]
    )
    assert found["message"] == (
        "di-server may change only the annotations diengine/changed-by and diengine/idempotency "
        "and diengine/trace of a DIJob's metadata"
    )


@pytest.mark.parametrize("wrong", ["otel:4318", "grpc://otel:4317"])
def test_a_bad_receiver_address_is_refused(chart: Chart, wrong: str) -> None:
    with pytest.raises(Refused, match="endpoint"):
        chart.render(f"tracing.endpoint={wrong}")
