"""Names, the CRD, network policies, notes, and that strings stay strings."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from tests.chart.chart import CHART, COMPONENTS, Chart

CLUSTER_KINDS = {
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
}


def test_helm_finds_nothing_to_complain_about(chart: Chart) -> None:
    assert "[WARNING]" not in chart.lint()


def test_clients_find_the_services_under_fixed_names(chart: Chart) -> None:
    services = chart.render(release="whatever").of_kind("Service")
    assert {n: [p["port"] for p in s["spec"]["ports"]] for n, s in services.items()} == {
        "di-webhook": [443],
        "di-server": [8081, 8080],
    }


@pytest.mark.parametrize(
    ("release", "name"),
    [
        ("blue", "blue-di-orchestrator"),
        ("di-orchestrator", "di-orchestrator"),
        ("r" * 53, "r" * 37 + "-di-orchestrator"),
    ],
)
def test_objects_of_the_cluster_are_named_for_the_release(
    chart: Chart, release: str, name: str
) -> None:
    rendered = chart.render(release=release)
    ours = [
        o["metadata"]["name"]
        for o in rendered.objects
        if o["kind"] in CLUSTER_KINDS - {"CustomResourceDefinition"}
    ]
    assert ours
    assert all(found == name or found.startswith(f"{name}-") for found in ours)


def test_every_object_says_where_it_belongs(chart: Chart) -> None:
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


def test_a_string_that_looks_like_something_else_stays_a_string(chart: Chart) -> None:
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
def test_annotations_and_labels_of_pods_stay_strings(chart: Chart, component: str) -> None:
    # --set reads true as a boolean, which the schema refuses; quotes are for --set-string.
    metadata = chart.render(
        f"{component}.podAnnotations.a=x", f"{component}.podLabels.team=rl"
    ).pods()[f"di-{component}"]["metadata"]
    assert metadata["annotations"]["a"] == "x"
    assert metadata["labels"]["team"] == "rl"


def test_the_crd_is_the_file_and_stays_on_uninstall(chart: Chart) -> None:
    name = "dijobs.diengine.opendilab.org"
    body = yaml.safe_load((CHART / "files/dijobs-crd.yaml").read_text())
    rendered = chart.render().one("CustomResourceDefinition", name)
    assert rendered["spec"] == body["spec"]
    assert rendered["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    mortal = chart.render("crds.keep=false").one("CustomResourceDefinition", name)
    assert "annotations" not in mortal["metadata"]
    assert not chart.render("crds.enabled=false").of_kind("CustomResourceDefinition")


def test_network_policies_open_only_the_ports_in_use(chart: Chart) -> None:
    assert not chart.render().of_kind("NetworkPolicy")
    policies = chart.render("networkPolicy.enabled=true").of_kind("NetworkPolicy")
    opened = {
        name: [port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]]
        for name, policy in policies.items()
    }
    assert opened == {"di-webhook": [8443, 8080], "di-operator": [8080], "di-server": [8080, 8081]}
    assert all(p["spec"]["policyTypes"] == ["Ingress", "Egress"] for p in policies.values())
    assert policies["di-webhook"]["spec"]["egress"] == []


def test_the_notes_tell_the_next_three_commands(chart: Chart) -> None:
    notes = chart.notes()
    for command in ("get pods", "helm test di --namespace di-system", "apply --filename"):
        assert command in notes
    assert "server.auth.mode=required" in notes


@pytest.mark.parametrize(
    ("value", "warning"),
    [
        ("server.auth.mode=off", "can scale every job"),
        ("webhook.enabled=false", "not refused"),
        ("crds.keep=false", "deletes every DIJob"),
    ],
)
def test_the_notes_warn_of(chart: Chart, value: str, warning: str) -> None:
    assert warning in chart.notes(value)
