"""Names, the CRD, network policies, notes, and that strings stay strings."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from di_api.coordinated import port_of
from di_api.crd.conversion import with_conversion
from di_api.spec import Role
from di_api.validation.templates.core_types import template_errors
from di_operator.config import Config, load_config
from tests.chart.chart import CHART, COMPONENTS, GIVEN_SECRETS, Chart, Object

CLUSTER_KINDS = {
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "MutatingWebhookConfiguration",
    "PriorityClass",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
}


def test_helm_lint_has_no_warnings(chart: Chart) -> None:
    assert "[WARNING]" not in chart.lint()


def test_clients_find_the_services_under_fixed_names(chart: Chart) -> None:
    services = chart.render(release="whatever").of_kind("Service")
    assert {n: [p["port"] for p in s["spec"]["ports"]] for n, s in services.items()} == {
        "di-webhook": [443],
        "di-server": [8443, 8081, 8080],
        "di-server-peers": [8443],
    }


@pytest.mark.proves(
    "rest.md#running-it/di-server-peers",
    "rest.md#running-it/di-server-peer-token-file",
    "rest.md#running-it/di-server-peer-host",
)
@pytest.mark.parametrize(
    ("values", "peers", "token"),
    [
        ((), "di-server-peers.di-system.svc.cluster.local:8443", True),
        (("server.tls.enabled=false",), "di-server-peers.di-system.svc.cluster.local:8081", True),
        (("server.auth.mode=off",), "di-server-peers.di-system.svc.cluster.local:8443", False),
        # Nobody could tell them from others.
        (
            (
                "watchNamespace=rl",
                "certificates.mode=existingSecret",
                "certificates.secretName=w",
                "server.tls.secretName=s",
            ),
            "",
            False,
        ),
    ],
    ids=["default", "plain HTTP", "auth off", "no ClusterRoles"],
)
def test_server_replicas_find_each_other(
    chart: Chart, values: tuple[str, ...], peers: str, token: bool
) -> None:
    rendered = chart.render(*values, "networkPolicy.enabled=true")
    data = rendered.one("ConfigMap", "di-server")["data"]
    assert data["DI_SERVER_PEERS"] == peers
    assert data["DI_SERVER_PEER_HOST"] == "di-server.di-system.svc.cluster.local"
    assert bool(data["DI_SERVER_PEER_TOKEN_FILE"]) is token
    spec = rendered.pods()["di-server"]["spec"]
    (container,) = spec["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    source = {"serviceAccountToken": {"audience": "di-server", "path": "token"}}
    projected = [v["projected"]["sources"] for v in spec["volumes"] if "projected" in v]
    assert projected == ([[source]] if token else [])
    if token:
        assert data["DI_SERVER_PEER_TOKEN_FILE"] == f"{mounts['peer-token']}/token"
    egress = rendered.one("NetworkPolicy", "di-server")["spec"]["egress"]
    to = [rule for rule in egress if "to" in rule]
    if not peers:
        assert "di-server-peers" not in rendered.of_kind("Service")
        assert not to
        return
    service = rendered.one("Service", "di-server-peers")["spec"]
    assert (service["clusterIP"], service["publishNotReadyAddresses"]) == ("None", True)
    assert service["selector"] == rendered.one("Service", "di-server")["spec"]["selector"]
    (port,) = service["ports"]
    named = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert named[port["targetPort"]] == port["port"] == int(peers.rpartition(":")[2])
    assert [[each["port"] for each in rule["ports"]] for rule in to] == [[port["port"]]]
    assert to[0]["to"] == [{"podSelector": {"matchLabels": service["selector"]}}]


@pytest.mark.proves(
    "operations.md#values/server-plainhttp-enabled", "operations.md#values/server-tls-enabled"
)
@pytest.mark.parametrize(
    ("values", "ports", "url"),
    [
        ((), {8443, 8081, 8080}, "https://di-server.di-system.svc.cluster.local:8443"),
        (
            ("server.tls.enabled=false",),
            {8081, 8080},
            "http://di-server.di-system.svc.cluster.local:8081",
        ),
        (
            ("server.plainHTTP.enabled=false",),
            {8443},
            "https://di-server.di-system.svc.cluster.local:8443",
        ),
    ],
    ids=["both", "plain HTTP", "HTTPS"],
)
def test_jobs_get_a_served_port(
    chart: Chart, values: tuple[str, ...], ports: set[int], url: str
) -> None:
    rendered = chart.render(*values)
    service = rendered.one("Service", "di-server")["spec"]["ports"]
    assert {port["port"] for port in service} == ports
    (container,) = rendered.pods()["di-server"]["spec"]["containers"]
    named = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert {port["port"]: named[port["targetPort"]] for port in service} == {
        port: port for port in ports
    }
    binds = rendered.one("ConfigMap", "di-server")["data"]["DI_SERVER_BINDS"].split(",")
    assert {int(bind.rpartition(":")[2]) for bind in binds} == ports
    data = rendered.one("ConfigMap", "di-operator")["data"]
    assert data["DI_OPERATOR_SERVER_URL"] == url
    assert bool(data["DI_OPERATOR_SERVER_CA_SECRET"]) is url.startswith("https")


@pytest.mark.parametrize(
    ("release", "name"),
    [
        ("blue", "blue-di-orchestrator"),
        ("di-orchestrator", "di-orchestrator"),
        ("r" * 53, "r" * 37 + "-di-orchestrator"),
    ],
)
def test_cluster_objects_are_named_after_the_release(chart: Chart, release: str, name: str) -> None:
    rendered = chart.render(release=release)
    ours = [
        o["metadata"]["name"]
        for o in rendered.objects
        if o["kind"] in CLUSTER_KINDS - {"CustomResourceDefinition"}
    ]
    assert ours
    assert all(found == name or found.startswith(f"{name}-") for found in ours)


def test_every_object_has_labels_and_namespace(chart: Chart) -> None:
    for found in chart.render("networkPolicy.enabled=true").objects:
        labels = found["metadata"]["labels"]
        assert labels["app.kubernetes.io/instance"] == "di"
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        if found["kind"] not in CLUSTER_KINDS:
            assert found["metadata"]["namespace"] == "di-system"


def strings(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from strings(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from strings(inner, f"{path}[{index}]")
    else:
        yield path, value


def test_string_values_are_quoted(chart: Chart) -> None:
    odd = [
        word
        for component in COMPONENTS
        for word in (
            f"{component}.image.repository=1e3",
            f"{component}.image.tag=1e2",
            f"{component}.priorityClassName=on",
            f"{component}.topologySpread.topologyKey=yes",
        )
    ]
    rendered = chart.render(
        *odd, "imagePullSecrets[0].name=1e1", "networkPolicy.enabled=true", release="123"
    )
    names = {"name", "namespace", "image", "priorityClassName", "topologyKey"}
    for found in rendered.objects:
        if found["kind"] == "CustomResourceDefinition":
            continue
        for path, value in strings(found):
            if path.rpartition(".")[2] in names or ".labels." in path or ".data." in path:
                assert isinstance(value, str), f"{found['kind']}{path}: {value!r}"


@pytest.mark.parametrize("component", COMPONENTS)
def test_pod_annotations_and_labels_are_strings(chart: Chart, component: str) -> None:
    # --set reads true as a boolean, which the schema refuses; quotes are for --set-string.
    metadata = chart.render(
        f"{component}.podAnnotations.a=x", f"{component}.podLabels.team=rl"
    ).pods()[f"di-{component}"]["metadata"]
    assert metadata["annotations"]["a"] == "x"
    assert metadata["labels"]["team"] == "rl"


DIJOBS, AGGREGATORS, TASKS, TEMPLATES, OF_CLUSTER = (
    f"{n}.diengine.opendilab.org"
    for n in (
        *("dijobs", "aggregatorconfigs", "dijobtasks"),
        *("dijobtemplates", "clusterdijobtemplates"),
    )
)
SERVICE = {"name": "di-webhook", "namespace": "di-system", "path": "/convert", "port": 443}


def crd(chart: Chart, name: str, *values: str) -> Object:
    return chart.render(*values).one("CustomResourceDefinition", name)


def file_of(name: str) -> Object:
    body: Object = yaml.safe_load((CHART / f"files/{name.partition('.')[0]}-crd.yaml").read_text())
    return body


@pytest.mark.proves("operations.md#values/crds-keep", "operations.md#uninstall-and-reinstall")
@pytest.mark.parametrize("name", [DIJOBS, AGGREGATORS, TASKS, TEMPLATES, OF_CLUSTER])
def test_a_crd_stays_on_uninstall(chart: Chart, name: str) -> None:
    found = crd(chart, name)
    assert found["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert "annotations" not in crd(chart, name, "crds.keep=false")["metadata"]
    assert not chart.render("crds.enabled=false").of_kind("CustomResourceDefinition")


def test_sweeps_have_a_definition_where_the_operator_runs_them(chart: Chart) -> None:
    name = "disweeps.diengine.opendilab.org"
    assert name not in chart.render().of_kind("CustomResourceDefinition")
    assert crd(chart, name, "operator.sweeps=true")["spec"] == file_of(name)["spec"]


def test_with_the_webhook_every_version_is_served_and_converted(chart: Chart) -> None:
    wanted = with_conversion(file_of(DIJOBS), {"service": SERVICE})
    assert crd(chart, DIJOBS)["spec"] == wanted["spec"]
    assert crd(chart, AGGREGATORS)["spec"] == file_of(AGGREGATORS)["spec"]


@pytest.mark.proves("operations.md#values/crds-olderversions")
@pytest.mark.parametrize("value", ["webhook.enabled=false", "crds.olderVersions=false"])
def test_without_conversion_only_the_stored_version_is_served(chart: Chart, value: str) -> None:
    spec = crd(chart, DIJOBS, value)["spec"]
    assert [v["name"] for v in spec["versions"] if v["served"]] == ["v2alpha1"]
    assert spec["versions"] == file_of(DIJOBS)["spec"]["versions"]
    # Of what the operator has a part in, nothing may go away: see the template.
    assert spec["conversion"] == crd(chart, DIJOBS)["spec"]["conversion"]


def test_conversion_and_admission_have_the_same_authority(chart: Chart) -> None:
    own = (*GIVEN_SECRETS, "certificates.caBundle=-----BEGIN CERTIFICATE-----")
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        (admission,) = chart.render(*own).one(kind, "di-di-orchestrator")["webhooks"]
        converter = crd(chart, DIJOBS, *own)["spec"]["conversion"]["webhook"]
        assert converter["clientConfig"]["caBundle"] == admission["clientConfig"]["caBundle"]
    injected = crd(chart, DIJOBS, "certificates.mode=cert-manager")["metadata"]["annotations"]
    assert injected["cert-manager.io/inject-ca-from"] == "di-system/di-webhook-ca"
    mortal = crd(chart, DIJOBS, "certificates.mode=cert-manager", "crds.keep=false")
    assert [*mortal["metadata"]["annotations"]] == ["cert-manager.io/inject-ca-from"]


def settings(chart: Chart, *values: str) -> Config:
    data = dict(chart.render(*values).one("ConfigMap", "di-operator")["data"])
    return load_config([], data | {"DI_OPERATOR_NAMESPACE": "di-system"}, random_identity=str)


def test_the_default_aggregator_config(chart: Chart) -> None:
    found = settings(chart)
    assert found.aggregator_config == ("di-system", "aggregator-config")
    assert [str(error) for error in template_errors("template", found.aggregator_template)] == []
    assert port_of(found.aggregator_template, Role.AGGREGATOR) == 22272
    server = chart.render().one("ConfigMap", "di-server")["data"]
    assert server["DI_SERVER_AGGREGATOR_CONFIG"] == "di-system/aggregator-config"


@pytest.mark.proves("operations.md#values/aggregatorconfig-template")
def test_a_given_aggregator_config_is_used(chart: Chart) -> None:
    found = settings(chart, "aggregatorConfig.create=false", "aggregatorConfig.name=mine")
    assert (found.aggregator_config, found.aggregator_template) == (("di-system", "mine"), {})


@pytest.mark.proves("security.md#network-policies", "operations.md#values/networkpolicy-enabled")
def test_network_policies_open_only_the_ports_in_use(chart: Chart) -> None:
    assert not chart.render().of_kind("NetworkPolicy")
    policies = chart.render("networkPolicy.enabled=true").of_kind("NetworkPolicy")
    opened = {
        name: [port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]]
        for name, policy in policies.items()
    }
    assert opened == {
        "di-webhook": [8443, 8080],
        "di-operator": [8080],
        "di-server": [8080, 8081, 8082, 8443],
    }
    assert all(p["spec"]["policyTypes"] == ["Ingress", "Egress"] for p in policies.values())
    assert policies["di-webhook"]["spec"]["egress"] == []


@pytest.mark.proves("operations.md#install")
def test_the_notes_show_the_next_commands(chart: Chart) -> None:
    notes = chart.notes()
    for command in ("get pods", "helm test di --namespace di-system", "apply --filename"):
        assert command in notes
    assert "server.auth.mode=required" in notes


@pytest.mark.parametrize(
    ("value", "warning"),
    [
        ("server.auth.mode=off", "can scale every job"),
        ("server.tls.enabled=false", "in clear"),
        ("server.plainHTTP.enabled=false", "do not reach the server"),
        ("webhook.enabled=false", "what it\ncannot see is accepted"),
        ("crds.keep=false", "deletes every DIJob"),
    ],
)
def test_the_notes_warn_of_risky_values(chart: Chart, value: str, warning: str) -> None:
    assert warning in chart.notes(value)
