"""The three services are described alike, and each can be left out."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from di_api.spec import MAX_PODS
from di_server.config import DEFAULT_MAX_REPLICAS
from tests.chart.chart import CHART, COMPONENTS, GIVEN_SECRETS, Chart, Refused
from tools.release.version import ROOT, present

VERSION = present(ROOT)
OWN_KEYS = {
    "webhook": {"timeoutSeconds", "hostNetwork"},
    "operator": {
        *(
            "syncPeriodSeconds",
            "jobMetrics",
            "jobTasks",
            "sweeps",
            "suspendIdleJobs",
            "scaleDownIdleJobs",
        ),
        "suspectTaintPercent",
        *("kueue", "notifications", "allocator"),
    },
    "server": {"auth", "limits", "plainHTTP", "scaling", "tls"},
}


def shared_block(values: dict[str, Any], component: str) -> dict[str, Any]:
    return {k: v for k, v in values[component].items() if k not in OWN_KEYS[component]}


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_component_has_the_same_keys(component: str) -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def keys(block: object) -> object:
        if not isinstance(block, dict):
            return None
        return {k: keys(v) for k, v in block.items() if k != "resources"}

    assert keys(shared_block(values, component)) == keys(shared_block(values, "webhook"))


@pytest.mark.parametrize("component", COMPONENTS)
def test_every_component_has_the_same_schema(component: str) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]
    properties = {name: block["properties"] for name, block in schema.items() if name in COMPONENTS}
    assert shared_block(properties, component) == shared_block(properties, "webhook")


@pytest.mark.proves("operations.md#values/server-scaling-defaultmaxreplicas")
def test_the_default_bound_of_scaling_matches_the_server() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]
    bound = schema["server"]["properties"]["scaling"]["properties"]["defaultMaxReplicas"]
    assert values["server"]["scaling"] == {"defaultMaxReplicas": DEFAULT_MAX_REPLICAS}
    assert bound["maximum"] == MAX_PODS


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_disabled_component_leaves_no_object(chart: Chart, component: str) -> None:
    off = [f"{component}.enabled=false"]
    if component == "operator":
        off.extend(GIVEN_SECRETS)
    left = {
        o["metadata"]["labels"]["app.kubernetes.io/component"]
        for o in chart.render(*off).objects
        if "helm.sh/hook" not in o["metadata"].get("annotations", {})
    }
    # Where no webhook judges jobs, a policy does.
    policy = {"jobs"} if component == "webhook" else set()
    assert left == {"crd", *COMPONENTS} - {component} | policy


@pytest.mark.parametrize("component", COMPONENTS)
def test_two_replicas_survive_a_drain_and_an_update(chart: Chart, component: str) -> None:
    rendered = chart.render()
    deployment = rendered.one("Deployment", f"di-{component}")["spec"]
    budget = rendered.one("PodDisruptionBudget", f"di-{component}")["spec"]
    (spread,) = deployment["template"]["spec"]["topologySpreadConstraints"]
    assert deployment["replicas"] == 2
    assert deployment["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert budget["maxUnavailable"] == 1
    assert budget["selector"] == deployment["selector"]
    assert spread["whenUnsatisfiable"] == "ScheduleAnyway"
    assert spread["labelSelector"] == deployment["selector"]


@pytest.mark.proves("operations.md#values/webhook-replicas-operator-replicas")
@pytest.mark.parametrize("component", COMPONENTS)
def test_replicas_can_be_left_to_an_autoscaler(chart: Chart, component: str) -> None:
    rendered = chart.render(f"{component}.replicas=null")
    assert "replicas" not in rendered.one("Deployment", f"di-{component}")["spec"]


@pytest.mark.parametrize("component", COMPONENTS)
def test_scheduling_values_reach_the_pods(chart: Chart, component: str) -> None:
    pod = chart.render(
        f"{component}.nodeSelector.disk=ssd",
        f"{component}.tolerations[0].key=dedicated",
        f"{component}.tolerations[0].operator=Exists",
        f"{component}.affinity.podAffinity.x=y",
        f"{component}.priorityClassName=system-cluster-critical",
        f"{component}.topologySpread.enabled=false",
        f"{component}.terminationGracePeriodSeconds=77",
        "imagePullSecrets[0].name=regcred",
    ).pods()[f"di-{component}"]["spec"]
    assert pod["nodeSelector"] == {"disk": "ssd"}
    assert pod["tolerations"] == [{"key": "dedicated", "operator": "Exists"}]
    assert pod["affinity"] == {"podAffinity": {"x": "y"}}
    assert pod["priorityClassName"] == "system-cluster-critical"
    assert "topologySpreadConstraints" not in pod
    assert pod["terminationGracePeriodSeconds"] == 77
    assert pod["imagePullSecrets"] == [{"name": "regcred"}]


@pytest.mark.proves(
    "operations.md#values/imageregistry-imagepullsecrets",
    "operations.md#values/webhook-image-digest-and-of-the-others",
)
@pytest.mark.parametrize(
    ("values", "image"),
    [
        ((), f"opendilab/di-server:{VERSION}"),
        (("server.image.tag=x",), "opendilab/di-server:x"),
        (
            ("imageRegistry=mirror.example.org/team",),
            f"mirror.example.org/team/opendilab/di-server:{VERSION}",
        ),
        (
            ("server.image.tag=x", f"server.image.digest=sha256:{'0' * 64}"),
            f"opendilab/di-server@sha256:{'0' * 64}",
        ),
    ],
    ids=["the chart's version", "a tag", "a mirror", "a digest wins over the tag"],
)
def test_an_image_reference_follows_the_values(
    chart: Chart, values: tuple[str, ...], image: str
) -> None:
    pod = chart.render(*values).pods()["di-server"]
    assert pod["spec"]["containers"][0]["image"] == image


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_changed_setting_replaces_the_pods(chart: Chart, component: str) -> None:
    def template(*values: str) -> object:
        return chart.render(*values).pods()[f"di-{component}"]

    assert template(f"{component}.logLevel=debug") != template()
    labels = chart.render().pods()[f"di-{component}"]["metadata"]["labels"]
    assert (
        labels
        == chart.render().one("Deployment", f"di-{component}")["spec"]["selector"]["matchLabels"]
    )


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_leaving_pod_serves_during_its_drain(chart: Chart, component: str) -> None:
    container = chart.render(f"{component}.drainSeconds=7").pods()[f"di-{component}"]["spec"][
        "containers"
    ][0]
    assert container["lifecycle"]["preStop"] == {"sleep": {"seconds": 7}}


@pytest.mark.proves("operations.md#values/operator-allocator-kindlabel")
def test_the_node_type_label_reaches_the_operator(chart: Chart) -> None:
    def label(*values: str) -> str:
        found = chart.render(*values).one("ConfigMap", "di-operator")["data"]
        return str(found["DI_OPERATOR_NODE_KIND_LABEL"])

    assert label() == ""
    assert label(r"operator.allocator.kindLabel=nvidia\.com/gpu\.product") == (
        "nvidia.com/gpu.product"
    )
    with pytest.raises(Refused):
        label("operator.allocator.kindLabel=gpu=a")


def documented() -> dict[str, str]:
    """The defaults of docs/how-to/operations.md: rows with a key and a value in words of YAML."""
    text = (CHART.parents[1] / "docs/how-to/operations.md").read_text()
    part = text.partition("\n## Values\n")[2].partition("\n### ")[0]
    rows = re.findall(r"^\| `([\w.]+)`[^|]*\| `?([\w.]+)`? \|", part, re.MULTILINE)
    words = {"none": "", "empty": "", "all": ""}
    return {key: words.get(value, value) for key, value in rows if value != "see"}


@pytest.mark.parametrize("key", documented())
def test_the_default_of_a_value_is_the_documents(key: str) -> None:
    found = yaml.safe_load((CHART / "values.yaml").read_text())
    for name in key.split("."):
        found = found[name]
    empty = found in ("", [], {}, None)
    assert (None if empty else found) == yaml.safe_load(documented()[key])
