"""Pods run under Pod Security "restricted" and understand their settings."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import pytest

from di_api.admission_rules import ADMISSION_RULES, CLUSTER_RULES
from di_operator.certificates.manager import certificate_settings
from di_operator.config import load_config
from di_operator.notification_targets import Format, Happening
from di_operator.process import exit_deadline
from di_server.config import load_config as load_server_config
from di_server.deadline import REQUEST_SECONDS
from di_webhook.config import load_config as load_webhook_config
from tests.chart.chart import COMPONENTS, GIVEN_SECRETS, Chart, Object

PODS = ("di-webhook", "di-operator", "di-server", "di-test")


def restricted(spec: Mapping[str, Any]) -> None:
    """Assert the rules of Pod Security "restricted" and a read-only root file system."""
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == 65532
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in spec["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert container["resources"]["limits"].keys() == {"memory"}
    assert {kind for v in spec.get("volumes", ()) for kind in v if kind != "name"} <= {
        "configMap",
        "emptyDir",
        "projected",
        "secret",
    }


@pytest.mark.proves("security.md#the-services-pods")
@pytest.mark.parametrize("name", PODS)
def test_a_pod_is_restricted(chart: Chart, name: str) -> None:
    restricted(chart.render().pods()[name]["spec"])


def test_the_pod_of_the_test_job_is_restricted(chart: Chart) -> None:
    (container,) = chart.render().pods()["di-test"]["spec"]["containers"]
    (text,) = (e["value"] for e in container["env"] if e["name"] == "TEST_JOB")
    job = json.loads(text)
    (task,) = job["spec"]["tasks"]
    restricted(task["template"]["spec"])
    assert job["metadata"]["namespace"] == "di-system"
    assert job["spec"]["ttlSecondsAfterFinished"] > 0


def test_helm_test_has_a_time_limit(chart: Chart) -> None:
    pod = chart.render("test.timeoutSeconds=45").pods()["di-test"]["spec"]
    assert pod["restartPolicy"] == "Never"
    assert {"name": "TEST_TIMEOUT_SECONDS", "value": "45"} in pod["containers"][0]["env"]
    assert pod["activeDeadlineSeconds"] > 45


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_probe_goes_to_a_port_of_the_container(chart: Chart, component: str) -> None:
    (container,) = chart.render().pods()[f"di-{component}"]["spec"]["containers"]
    ports = {port["name"] for port in container["ports"]}
    probes = {kind: container[f"{kind}Probe"] for kind in ("startup", "liveness", "readiness")}
    assert {probe["httpGet"]["port"] for probe in probes.values()} <= ports
    assert probes["liveness"]["httpGet"]["path"] == "/healthz"
    assert probes["readiness"]["httpGet"]["path"] == "/readyz"


def test_the_servers_readiness_probe_allows_a_slow_api_server(chart: Chart) -> None:
    (container,) = chart.render().pods()["di-server"]["spec"]["containers"]
    assert container["readinessProbe"]["timeoutSeconds"] > REQUEST_SECONDS / 2


def test_the_operators_exit_deadline_is_within_its_grace_period(chart: Chart) -> None:
    spec = chart.render().pods()["di-operator"]["spec"]
    assert spec["terminationGracePeriodSeconds"] > exit_deadline.SECONDS


@pytest.mark.parametrize("mode", [(), ("certificates.mode=cert-manager",), GIVEN_SECRETS])
@pytest.mark.parametrize("component", ["webhook", "server"])
def test_pods_mount_the_secret_of_their_certificate(
    chart: Chart, component: str, mode: tuple[str, ...]
) -> None:
    values = ("certificates.secretName=other", "server.tls.secretName=another", *mode)
    spec = chart.render(*values).pods()[f"di-{component}"]["spec"]
    (secret,) = (each["secret"] for each in spec["volumes"] if "secret" in each)
    assert secret.keys() == {"secretName"}


def test_the_webhooks_startup_probe_allows_two_minutes(chart: Chart) -> None:
    spec = chart.render().pods()["di-webhook"]["spec"]
    startup = spec["containers"][0]["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 120


def environment(chart: Chart, component: str, *values: str) -> dict[str, str]:
    """What the container of a component finds in its environment."""
    rendered = chart.render(*values)
    (container,) = rendered.pods()[f"di-{component}"]["spec"]["containers"]
    assert container["envFrom"] == [{"configMapRef": {"name": f"di-{component}"}}]
    settings: Object = rendered.one("ConfigMap", f"di-{component}")["data"]
    own = {e["name"]: e.get("value", "from-the-pod") for e in container.get("env", [])}
    return {**settings, **own}


@pytest.mark.proves(
    "operations.md#values/watchnamespace",
    "operations.md#values/operator-syncperiodseconds",
    "operations.md#values/operator-jobmetrics",
    "operations.md#metrics-of-single-jobs/series",
    "operations.md#values/servicedomain",
    "operations.md#values/operator-allocator-periodseconds",
    "operations.md#values/operator-allocator-binding",
)
def test_the_operator_understands_its_settings(chart: Chart) -> None:
    config = load_config(
        [],
        environment(
            chart,
            "operator",
            "watchNamespace=team",
            "rbac.allowClusterRoles=true",
            "operator.syncPeriodSeconds=30",
            "operator.jobMetrics=7",
            "operator.sweeps=true",
            "operator.suspendIdleJobs=true",
            "operator.scaleDownIdleJobs=true",
            "operator.allocator.periodSeconds=15",
            "operator.allocator.binding=Direct",
            "serviceDomain=svc.example.org",
            "operator.logLevel=debug",
        ),
        random_identity=lambda: "random",
    )
    assert config.namespace == config.identity == "from-the-pod"
    assert config.watch_namespace == "team"
    assert config.server_url == "https://di-server.di-system.svc.example.org:8443"
    assert config.service_domain == "svc.example.org"
    assert (config.scheduling_period, config.binding.value) == (15, "Direct")
    assert config.lease_name == "di-operator"
    assert config.leader_elect
    assert config.sync_period == 30
    assert config.job_metrics == 7
    assert config.job_tasks
    assert config.sweeps
    assert config.suspend_idle_jobs
    assert config.scale_down_idle_jobs
    assert config.authority_secret == "di-webhook-tls-ca"
    assert config.webhook_secret == "di-webhook-tls"
    assert config.server_secret == config.server_ca_secret == "di-server-tls"
    assert config.server_deployment == "di-server"
    assert config.webhook_service == "di-webhook"
    assert config.webhook_configuration == "di-di-orchestrator"
    assert config.webhook_admission == "di-webhook-admission"
    settings = certificate_settings(config)
    assert settings is not None
    assert settings.rules == ADMISSION_RULES
    everywhere = certificate_settings(dataclasses.replace(config, watch_namespace=None))
    assert everywhere is not None
    assert everywhere.rules == CLUSTER_RULES
    assert config.token_audience == "di-server"
    assert config.log_level == "debug"


def test_urls_of_notifications_are_mounted_from_secrets(chart: Chart) -> None:
    target = "operator.notifications.targets[0]"
    rendered = chart.render(
        f"{target}.name=team",
        f"{target}.secretName=team-hook",
        f"{target}.secretKey=address",
        f"{target}.format=Slack",
        f"{target}.on={{Failed,Hung}}",
        f"{target}.default=true",
        "operator.notifications.waitingSeconds=3600",
    )
    environment = {**rendered.one("ConfigMap", "di-operator")["data"], "DI_OPERATOR_NAMESPACE": "x"}
    config = load_config([], environment, random_identity=lambda: "one")
    (found,) = config.notification_targets
    assert (found.name, found.format, found.default) == ("team", Format.SLACK, True)
    assert found.on == {Happening.FAILED, Happening.HUNG}
    assert config.notification_waiting == 3600
    spec = rendered.pods()["di-operator"]["spec"]
    (mount,) = (
        each for each in spec["containers"][0]["volumeMounts"] if each["name"] == "notifications"
    )
    (volume,) = (each for each in spec["volumes"] if each["name"] == "notifications")
    (source,) = volume["projected"]["sources"]
    (item,) = source["secret"]["items"]
    assert source["secret"]["name"] == "team-hook"
    assert (item["key"], f"{mount['mountPath']}/{item['path']}") == ("address", str(found.url_file))
    assert mount["readOnly"]


@pytest.mark.proves("operations.md#values/operator-notifications-targets")
def test_without_targets_there_are_no_notifications(chart: Chart) -> None:
    rendered = chart.render()
    assert rendered.one("ConfigMap", "di-operator")["data"]["DI_OPERATOR_NOTIFICATION_TARGETS"] == (
        "[]"
    )
    volumes = rendered.pods()["di-operator"]["spec"]["volumes"]
    assert "notifications" not in [each["name"] for each in volumes]


@pytest.mark.parametrize(
    "value", ["webhook.enabled=false", "certificates.mode=cert-manager"], ids=str
)
def test_the_operator_does_not_manage_foreign_certificates(chart: Chart, value: str) -> None:
    given = environment(chart, "operator", value)
    config = load_config([], given, random_identity=str)
    assert (config.webhook_secret, config.webhook_admission) == (None, None)


@pytest.mark.parametrize(
    ("values", "makes", "reads"),
    [
        (("webhook.enabled=false",), "di-server-tls", "di-server-tls"),
        (("certificates.mode=cert-manager",), None, "di-server-tls"),
        (GIVEN_SECRETS, None, "given-server-tls"),
        (("server.tls.enabled=false",), None, None),
        (("server.enabled=false",), None, None),
    ],
)
def test_pods_get_the_servers_authority_in_every_mode(
    chart: Chart, values: tuple[str, ...], makes: str | None, reads: str | None
) -> None:
    rendered = chart.render(*values)
    given = environment(chart, "operator", *values)
    config = load_config([], given, random_identity=str)
    assert (config.server_secret, config.server_ca_secret) == (makes, reads)
    assert (config.server_deployment is not None) == ("di-server" in rendered.pods())
    if "di-server" in rendered.pods():
        volumes = rendered.pods()["di-server"]["spec"]["volumes"]
        mounted = [each["secret"]["secretName"] for each in volumes if "secret" in each]
        assert mounted == ([reads] if reads else [])


def test_the_webhook_understands_its_settings(chart: Chart) -> None:
    config = load_webhook_config([], environment(chart, "webhook", "webhook.logLevel=warning"))
    assert str(config.bind) == "[::]:8443"
    assert str(config.health_bind) == "[::]:8080"
    assert str(config.cert_dir) == "/certs"
    assert config.log_level == "warning"


@pytest.mark.proves("operations.md#values/server-auth-mode", "operations.md#values/server-limits")
def test_the_server_understands_its_settings(chart: Chart) -> None:
    config = load_server_config(
        [],
        environment(
            chart,
            "server",
            "server.auth.mode=required",
            "watchNamespace=team",
            "rbac.allowClusterRoles=true",
            "server.limits.refusalRate=2",
            "server.limits.refusalBurst=1000000",
            "server.limits.reviewRate=1000000",
        ),
    )
    assert tuple(map(str, config.binds)) == ("[::]:8080", "[::]:8081", "[::]:8443")
    assert (config.tls_port, str(config.cert_dir)) == (8443, "/certs")
    assert str(config.health_bind) == "[::]:8082"
    assert config.auth.value == "required"
    assert config.watch_namespace == "team"
    assert (config.refusal_rate, config.refusal_burst) == (2, 1_000_000)
    assert (config.review_rate, config.lookup_rate) == (1_000_000, 20)


@pytest.mark.parametrize("component", COMPONENTS)
def test_extra_variables_reach_the_container(chart: Chart, component: str) -> None:
    given = environment(
        chart, component, f"{component}.extraEnv[0].name=X", f"{component}.extraEnv[0].value=y"
    )
    assert given["X"] == "y"
