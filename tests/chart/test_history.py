"""The history is off; turned on it has what it needs and may do no more than look."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from di_history.config import load_config
from tests.chart.chart import CHART, GIVEN_SECRETS, Chart, Object, Refused
from tests.chart.test_rbac import DIJOBS, TOKENS, permissions

ON = "history.enabled=true"
DATABASE = "history.database.existingSecret=history-database"
OWN_KEYS = {"database", "objectStorage", "persistence", "retention", "tls"}
BUCKET = "history.objectStorage.bucket=rl-logs"
EVERYTHING = {
    DIJOBS: "list watch",
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


def test_nothing_of_it_is_there_until_it_is_turned_on(chart: Chart) -> None:
    assert not [each for each in chart.render().objects if "history" in each["metadata"]["name"]]


def test_what_it_has_in_common_with_the_others_is_called_alike() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]
    common = {key for key in values["history"] if key not in OWN_KEYS}
    assert common == set(values["webhook"])
    for key in common:
        assert schema["history"]["properties"][key] == schema["webhook"]["properties"][key]


def test_it_may_look_and_do_nothing(chart: Chart) -> None:
    assert permissions(chart.render(ON), "di-history") == {"*": EVERYTHING | TOKENS}


def test_in_one_namespace_it_looks_there_alone(chart: Chart) -> None:
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


def test_a_file_has_one_pod_and_its_volume_stays(chart: Chart) -> None:
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
def test_the_file_may_be_elsewhere(chart: Chart, values: tuple[str, ...], volume: Object) -> None:
    (data,) = [
        each
        for each in deployment(chart, *values)["template"]["spec"]["volumes"]
        if each["name"] == "data"
    ]
    assert data == {"name": "data", **volume}
    assert not chart.render(ON, *values).of_kind("PersistentVolumeClaim")


def test_a_database_of_yours_takes_more_than_one_replica_and_no_volume(chart: Chart) -> None:
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


def test_without_a_certificate_nothing_but_a_port_forward_reaches_it(chart: Chart) -> None:
    off = "history.tls.enabled=false"
    assert settings(chart, off)["DI_HISTORY_BINDS"] == "127.0.0.1:8080"
    assert "di-history" not in chart.render(ON, off).of_kind("Service")
    assert [each["name"] for each in container(chart, off)["ports"]] == ["health"]
    assert "https://di-history" not in chart.notes(ON, off)


@pytest.mark.parametrize(
    ("values", "makes", "serves"),
    [
        ((), "di-history-tls", "di-history-tls"),
        (("history.tls.secretName=mine",), "mine", "mine"),
        (("history.tls.enabled=false",), "", None),
        (("certificates.mode=cert-manager",), "", "di-history-tls"),
        ((*GIVEN_SECRETS, "history.tls.secretName=mine"), "", "mine"),
    ],
)
def test_the_operator_makes_its_certificate_unless_somebody_else_does(
    chart: Chart, values: tuple[str, ...], makes: str, serves: str | None
) -> None:
    rendered = chart.render(ON, *values)
    operator = rendered.one("ConfigMap", "di-operator")["data"]
    volumes = rendered.one("Deployment", "di-history")["spec"]["template"]["spec"]["volumes"]
    mounted = [each["secret"]["secretName"] for each in volumes if "secret" in each]
    policy = rendered.one("ValidatingAdmissionPolicy", "di-di-orchestrator-operator-names")

    assert operator["DI_OPERATOR_HISTORY_SECRET"] == makes
    assert mounted == ([serves] if serves else [])
    assert (f"'secrets/{makes}'" in str(policy)) == bool(makes)
    certificates = rendered.of_kind("Certificate")
    assert ("di-history" in certificates) == ("certificates.mode=cert-manager" in values)


def test_a_certificate_that_nobody_would_make_is_refused(chart: Chart) -> None:
    with pytest.raises(Refused, match=r"make for the history in history\.tls\.secretName"):
        chart.render(ON, *GIVEN_SECRETS)
    alone = ("operator.enabled=false", "webhook.enabled=false", "server.enabled=false")
    with pytest.raises(Refused, match="nobody would make the certificates"):
        chart.render(ON, *alone)
    assert chart.render(ON, *alone, "history.tls.enabled=false").of_kind("Deployment")


def test_with_a_certificate_it_serves_https(chart: Chart) -> None:
    values = ()
    found = settings(chart, *values)

    assert (found["DI_HISTORY_BINDS"], found["DI_HISTORY_TLS_PORT"]) == (
        "127.0.0.1:8080,0.0.0.0:8443",
        "8443",
    )
    (port,) = chart.render(ON, *values).one("Service", "di-history")["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (8443, "https")
    mounts = {each["name"]: each for each in container(chart, *values)["volumeMounts"]}
    assert mounts["certificate"]["mountPath"] == "/certs"


@pytest.mark.parametrize("values", [(), ("history.tls.enabled=false",), (DATABASE,)])
def test_its_settings_are_those_that_it_reads(chart: Chart, values: tuple[str, ...]) -> None:
    found = settings(chart, *values)

    config = load_config([], found)

    assert (config.days, config.most_bytes) == (90.0, 15 << 30)
    assert (config.log_bytes, config.job_log_bytes) == (1 << 20, 1660 << 10)
    assert config.auth == "required"
    for key in found:
        changed = {**found, key: found[key] + "?"}
        free_text = ("DI_HISTORY_WATCH_NAMESPACE", "DI_HISTORY_DATABASE")
        if key not in free_text:
            with pytest.raises(Exception, match=key):
                load_config([], changed)


def test_its_pod_is_as_strict_as_the_others(chart: Chart) -> None:
    pods = chart.render(ON).pods()
    history, server = (pods[name]["spec"] for name in ("di-history", "di-server"))
    for key in ("securityContext", "enableServiceLinks"):
        assert history[key] == server[key]
    assert history["containers"][0]["securityContext"] == server["containers"][0]["securityContext"]


def test_the_notes_say_how_it_is_reached(chart: Chart) -> None:
    assert "port-forward deployment/di-history 8080" in chart.notes(ON)
    assert "https://di-history.di-system.svc:8443" in chart.notes(ON)
    assert "goes with its pod" in chart.notes(ON, "history.persistence.enabled=false")
    assert "history" not in chart.notes()


def test_whole_logs_have_a_bucket_and_a_folder_to_wait_in(chart: Chart) -> None:
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


def test_without_a_secret_it_is_an_identity_of_the_pod(chart: Chart) -> None:
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
def test_a_storage_that_cannot_be_is_refused(
    chart: Chart, values: tuple[str, ...], why: str
) -> None:
    with pytest.raises(Refused, match=why):
        chart.render(ON, *values)
