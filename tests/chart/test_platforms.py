"""What differs between platforms and their rules: ids, accounts, labels, networks."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.chart.chart import CHART, Chart, Refused
from tools.documents.chart import document, values

ALL = ("history.enabled=true", "dashboard.enabled=true")
IDS = {"runAsUser", "runAsGroup", "fsGroup"}
OPENSHIFT = "security.openshift.io/v1"


def test_pods_have_fixed_ids_except_where_the_platform_gives_them(chart: Chart) -> None:
    for pod in chart.render(*ALL).pods().values():
        assert {pod["spec"]["securityContext"][key] for key in IDS} == {65532}
    given = chart.render(*ALL, api_versions=(OPENSHIFT,)).pods()
    assert len(given) > 4
    for pod in given.values():
        assert not IDS & pod["spec"]["securityContext"].keys()
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True


@pytest.mark.proves("operations.md#values/podsecuritycontext")
def test_fields_of_security_contexts_are_added_and_taken_out(chart: Chart) -> None:
    made = chart.render(
        "podSecurityContext.runAsUser=null",
        "podSecurityContext.fsGroup=7000",
        "podSecurityContext.seLinuxOptions.level=s0:c1",
        "containerSecurityContext.seccompProfile.type=RuntimeDefault",
    )
    pod = made.pods()["di-server"]["spec"]
    assert "runAsUser" not in pod["securityContext"]
    assert pod["securityContext"]["fsGroup"] == 7000
    assert pod["securityContext"]["seLinuxOptions"] == {"level": "s0:c1"}
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


@pytest.mark.proves("operations.md#values/webhook-serviceaccount-and-of-the-others")
@pytest.mark.parametrize("component", ["webhook", "operator", "server", "history", "dashboard"])
def test_a_service_account_may_be_anothers(chart: Chart, component: str) -> None:
    account = f"{component}.serviceAccount"
    name = f"di-{component}"
    made = chart.render(*ALL, f"{account}.annotations.role=arn")
    assert made.one("ServiceAccount", name)["metadata"]["annotations"]["role"] == "arn"
    made = chart.render(*ALL, f"{account}.create=false", f"{account}.name=given")
    assert name not in made.of_kind("ServiceAccount")
    assert made.pods()[name]["spec"]["serviceAccountName"] == "given"
    subjects = [
        subject["name"]
        for kind in ("RoleBinding", "ClusterRoleBinding")
        for binding in made.of_kind(kind).values()
        for subject in binding["subjects"]
    ]
    assert name not in subjects
    assert f":di-system:{name}'" not in str(made.objects)


@pytest.mark.proves("operations.md#values/commonlabels")
def test_common_labels_are_on_all_objects_and_pods_and_select_nothing(chart: Chart) -> None:
    made = chart.render(*ALL, "commonLabels.team=rl", r"commonLabels.app\.kubernetes\.io/name=no")
    without = chart.render(*ALL)
    for each, before in zip(made.objects, without.objects, strict=True):
        labels = dict(each["metadata"]["labels"])
        assert labels.pop("team") == "rl", each["metadata"]["name"]
        assert labels == before["metadata"]["labels"]
    for name, deployment in made.of_kind("Deployment").items():
        assert deployment["spec"]["template"]["metadata"]["labels"]["team"] == "rl"
        selector = without.one("Deployment", name)["spec"]["selector"]
        assert deployment["spec"]["selector"] == selector


def test_a_label_of_pods_comes_before_the_common_one_of_that_name(chart: Chart) -> None:
    labels = ("commonLabels.team=rl", "operator.podLabels.team=ops")
    made = chart.render(*labels, r"operator.podLabels.app\.kubernetes\.io/instance=no")
    pods = made.one("Deployment", "di-operator")["spec"]["template"]["metadata"]["labels"]
    assert (pods["team"], pods["app.kubernetes.io/instance"]) == ("ops", "di")


@pytest.mark.proves("operations.md#values/webhook-hostnetwork-webhook")
def test_the_webhook_may_be_on_the_network_of_its_node(chart: Chart) -> None:
    made = chart.render("webhook.hostNetwork=true", "webhook.timeoutSeconds=12")
    deployment = made.one("Deployment", "di-webhook")["spec"]
    assert deployment["template"]["spec"]["hostNetwork"] is True
    assert deployment["template"]["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"
    assert deployment["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    hooks: list[Any] = [
        hook
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
        for each in made.of_kind(kind).values()
        for hook in each["webhooks"]
    ]
    assert {hook["timeoutSeconds"] for hook in hooks} == {12}
    assert "hostNetwork" not in chart.render().pods()["di-webhook"]["spec"]


@pytest.mark.parametrize(
    "value",
    [
        "webhook.timeoutSeconds=31",
        "podSecurityContext.runAsUsr=1",
        "server.serviceAccount.nam=x",
        "containerSecurityContext.fsGroup=1",
        "server.serviceAccount.name=Not_A_Name",
        "commonLabels.team=of two words",
        "commonLabels.-team=a",
        "operator.podLabels.team=a/b",
    ],
)
def test_a_wrong_value_of_a_platform_is_refused(chart: Chart, value: str) -> None:
    with pytest.raises(Refused):
        chart.render(value)


def test_the_readme_has_every_value_of_the_chart() -> None:
    assert (CHART / "README.md").read_text() == document()
    listed = {key for key, _, _ in values((CHART / "values.yaml").read_text())}
    for name, block in yaml.safe_load((CHART / "values.yaml").read_text()).items():
        keys = (
            [name] if not isinstance(block, dict) or not block else [f"{name}.{k}" for k in block]
        )
        for key in keys:
            assert any(each == key or each.startswith(f"{key}.") for each in listed), key


def test_the_annotations_of_the_chart_name_its_images_and_resources() -> None:
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    notes = about["annotations"]
    images = {each["image"] for each in yaml.safe_load(notes["artifacthub.io/images"])}
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    parts = ("webhook", "operator", "server", "history", "dashboard")
    assert images == {
        f"{defaults[part]['image']['repository']}:{about['appVersion']}" for part in parts
    }
    named = {
        (each["kind"], each["name"], each["version"])
        for each in yaml.safe_load(notes["artifacthub.io/crds"])
    }
    files = [yaml.safe_load(file.read_text()) for file in (CHART / "files").glob("*-crd.yaml")]
    assert named == {
        (
            crd["spec"]["names"]["kind"],
            crd["metadata"]["name"],
            next(each["name"] for each in crd["spec"]["versions"] if each["storage"]),
        )
        for crd in files
    }
