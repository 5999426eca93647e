"""The history is off; turned on it has what it needs and may do no more than look."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from di_history.config import load_config
from tests.chart.chart import Chart, Object, Refused
from tests.chart.test_rbac import DIJOBS, TOKENS, permissions

ON = "history.enabled=true"
DATABASE = "history.database.existingSecret=history-database"
BUCKET = "history.objectStorage.bucket=rl-logs"
EVERYTHING = {
    DIJOBS: "get list watch",
    "pods": "list watch",
    "events": "list watch",
    "pods/log": "get",
}


def deployment(chart: Chart, *values: str) -> Any:
    return chart.render(ON, *values).one("Deployment", "di-history")["spec"]


def container(chart: Chart, *values: str) -> Any:
    return deployment(chart, *values)["template"]["spec"]["containers"][0]


def settings(chart: Chart, *values: str) -> dict[str, str]:
    found: dict[str, str] = dict(chart.render(ON, *values).one("ConfigMap", "di-history")["data"])
    return found


@pytest.mark.proves("operations.md#values/history-enabled")
@pytest.mark.proves(
    "security.md#permissions/history-off-by-default-watched-namespaces",
    "security.md#permissions/history-off-by-default-cluster",
)
def test_the_history_is_off_and_has_read_rights_only(chart: Chart) -> None:
    assert permissions(chart.render(), "di-history") == {}
    assert permissions(chart.render(ON), "di-history") == {"*": EVERYTHING | TOKENS}


@pytest.mark.proves("history.md#prices")
def test_prices_of_the_history_need_nodes(chart: Chart) -> None:
    values = ("history.usage.priceLabel=gpu", "history.usage.prices.a100=2")
    found = load_config([], settings(chart, *values))
    assert (found.price_label, found.prices) == ("gpu", {"a100": 2.0})
    assert permissions(chart.render(ON, *values), "di-history") == {
        "*": EVERYTHING | TOKENS | {"nodes": "list watch"}
    }
    assert "DI_HISTORY_PRICES" not in settings(chart)
    for wrong in ("history.usage.prices.a100=free", "history.usage.priceLabel=a b"):
        with pytest.raises(Refused):
            chart.render(ON, wrong)


def test_the_history_of_one_namespace_reads_there_only(chart: Chart) -> None:
    found = chart.render(ON, "watchNamespace=team", "rbac.allowClusterRoles=true")
    assert permissions(found, "di-history") == {"team": EVERYTHING, "*": TOKENS}
    with pytest.raises(Refused, match="checking tokens needs a ClusterRole"):
        chart.render(
            ON,
            "watchNamespace=team",
            "certificates.mode=existingSecret",
            "server.tls.secretName=given",
            "history.tls.secretName=given",
        )


@pytest.mark.proves("history.md#databases/where", "history.md#databases/replicas")
def test_sqlite_has_one_pod_and_a_kept_volume(chart: Chart) -> None:
    spec = deployment(chart)
    claim = chart.render(ON).one("PersistentVolumeClaim", "di-history")
    volumes = {each["name"]: each for each in spec["template"]["spec"]["volumes"]}
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    assert volumes["data"]["persistentVolumeClaim"] == {"claimName": "di-history"}
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert claim["spec"]["resources"] == {"requests": {"storage": "20Gi"}}
    assert "PodDisruptionBudget" not in {
        each["kind"]
        for each in chart.render(ON).objects
        if each["metadata"]["name"] == "di-history"
    }
    with pytest.raises(Refused, match="SQLite's file has one pod"):
        chart.render(ON, "history.replicas=2")


@pytest.mark.parametrize(
    ("values", "volume"),
    [
        (
            ("history.persistence.existingClaim=mine",),
            {"persistentVolumeClaim": {"claimName": "mine"}},
        ),
        (("history.persistence.enabled=false",), {"emptyDir": {"sizeLimit": "20Gi"}}),
    ],
)
def test_the_sqlite_file_may_be_on_another_volume(
    chart: Chart, values: tuple[str, ...], volume: Object
) -> None:
    (data,) = [
        each
        for each in deployment(chart, *values)["template"]["spec"]["volumes"]
        if each["name"] == "data"
    ]
    assert data == {"name": "data", **volume}
    assert not chart.render(ON, *values).of_kind("PersistentVolumeClaim")


@pytest.mark.proves("history.md#databases/where", "history.md#databases/replicas")
def test_an_external_database_needs_no_volume(chart: Chart) -> None:
    rendered = chart.render(ON, DATABASE, "history.replicas=2", "networkPolicy.enabled=true")
    spec = rendered.one("Deployment", "di-history")["spec"]
    pod = spec["template"]["spec"]
    assert (spec["replicas"], spec["strategy"]["type"]) == (2, "RollingUpdate")
    assert [each["name"] for each in pod["volumes"]] == ["certificate", "tmp"]
    assert pod["containers"][0]["env"] == [
        {
            "name": "DI_HISTORY_DATABASE",
            "valueFrom": {"secretKeyRef": {"name": "history-database", "key": "url"}},
        }
    ]
    assert "DI_HISTORY_DATABASE" not in rendered.one("ConfigMap", "di-history")["data"]
    assert rendered.one("PodDisruptionBudget", "di-history")["spec"]["maxUnavailable"] == 1
    egress = rendered.one("NetworkPolicy", "di-history")["spec"]["egress"]
    assert {"protocol": "TCP", "port": 5432} in egress[-1]["ports"]
    assert not rendered.of_kind("PersistentVolumeClaim")


def test_without_tls_only_a_port_forward_reaches_the_history(chart: Chart) -> None:
    off = "history.tls.enabled=false"
    assert settings(chart, off)["DI_HISTORY_BINDS"] == "localhost:8080"
    assert "di-history" not in chart.render(ON, off).of_kind("Service")
    assert [each["name"] for each in container(chart, off)["ports"]] == ["health"]
    assert "https://di-history" not in chart.notes(ON, off)
    assert not chart.render(ON, off).one("ConfigMap", "di-operator")["data"][
        "DI_OPERATOR_HISTORY_SECRET"
    ]
    alone = ("operator.enabled=false", "webhook.enabled=false", "server.enabled=false")
    assert chart.render(ON, *alone, off).of_kind("Deployment")


def test_with_tls_the_history_serves_https(chart: Chart) -> None:
    found = settings(chart)
    config = load_config([], found)
    assert (config.days, config.most_bytes, config.auth) == (90.0, 15 << 30, "required")
    assert (config.log_bytes, config.job_log_bytes) == (1 << 20, 1660 << 10)
    assert config.job_bytes == load_config([], {}).job_bytes == 40 << 20
    assert (found["DI_HISTORY_BINDS"], found["DI_HISTORY_TLS_PORT"]) == (
        "localhost:8080,[::]:8443",
        "8443",
    )
    (port,) = chart.render(ON).one("Service", "di-history")["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (8443, "https")
    mounts = {each["name"]: each for each in container(chart)["volumeMounts"]}
    assert mounts["certificate"]["mountPath"] == "/certs"


def test_the_notes_show_the_historys_address(chart: Chart) -> None:
    assert "port-forward deployment/di-history 8080" in chart.notes(ON)
    assert "https://di-history.di-system.svc:8443" in chart.notes(ON)
    assert "goes with its pod" in chart.notes(ON, "history.persistence.enabled=false")
    assert "history" not in chart.notes()


@pytest.mark.proves("operations.md#values/history-objectstorage-bucket")
def test_object_storage_has_a_bucket_and_a_spool(chart: Chart) -> None:
    storage = "history.objectStorage"
    rendered = chart.render(
        *(ON, BUCKET, "networkPolicy.enabled=true"),
        *(f"{storage}.existingSecret=mine", f"{storage}.caKey=ca.crt", f"{storage}.port=9000"),
        *(f"{storage}.endpoint=https://s3.example:9000", f"{storage}.spoolMebibytes=100"),
        f"{storage}.serviceAccountAnnotations.role=mine",
    )
    pod = rendered.one("Deployment", "di-history")["spec"]["template"]["spec"]
    volumes = {each["name"]: each for each in pod["volumes"]}
    environment = {each["name"]: each["valueFrom"] for each in pod["containers"][0]["env"]}
    assert volumes["spool"] == {"name": "spool", "emptyDir": {"sizeLimit": "164Mi"}}
    assert volumes["object-storage"]["secret"] == {
        "secretName": "mine",
        "items": [{"key": "ca.crt", "path": "ca.crt"}],
    }
    assert environment == {
        key: {"secretKeyRef": {"name": "mine", "key": key}}
        for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    }
    config = load_config([], dict(rendered.one("ConfigMap", "di-history")["data"]))
    assert (config.object_storage, config.object_endpoint, config.object_region) == (
        "s3://rl-logs/di-history",
        "https://s3.example:9000",
        "us-east-1",
    )
    assert config.object_ca_file == Path("/object-storage/ca.crt")
    assert (config.spool_dir, config.spool_bytes) == (Path("/spool"), 100 << 20)
    assert config.whole_log_bytes == 256 << 20
    egress = rendered.one("NetworkPolicy", "di-history")["spec"]["egress"]
    assert {"protocol": "TCP", "port": 9000} in egress[-1]["ports"]
    account = rendered.one("ServiceAccount", "di-history")["metadata"]
    assert account["annotations"] == {"role": "mine"}


def test_without_a_secret_object_storage_uses_the_pods_identity(chart: Chart) -> None:
    found = container(chart, BUCKET)
    assert "env" not in found
    assert "spool" in {each["name"] for each in found["volumeMounts"]}
    assert not [each for each in settings(chart) if "OBJECT" in each or "SPOOL" in each]


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ((BUCKET, "history.retention.logKibibytes=0"), "whole logs, and no logs at all"),
        ((BUCKET, "history.objectStorage.caKey=ca.crt"), "name the Secret that has that key"),
        (("history.objectStorage.endpoint=s3.example:9000",), "endpoint"),
        (("history.objectStorage.bucket=Mine",), "bucket"),
    ],
)
def test_contradicting_storage_values_are_refused(
    chart: Chart, values: tuple[str, ...], why: str
) -> None:
    with pytest.raises(Refused, match=why):
        chart.render(ON, *values)
