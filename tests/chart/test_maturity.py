"""The table of maturity agrees with the spec, the chart's values and the documents."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from di_api.spec.declared import Field, fields_of
from di_api.spec.job import JobSpec
from di_api.spec.kinds import OneOf, Struct, Structs
from di_api.spec.maturity import FEATURES, Feature, Stage
from tests.chart.chart import CHART
from tools.documents import maturity
from tools.documents.rows import ROOT

VALUES = CHART / "values.yaml"
_OFF = {"scheduling.gangSchedulers": [], "scheduling.provisioningRequests": False}
_OFF |= {"operator.sweeps": False, "operator.suspendIdleJobs": False}
_OFF |= {"operator.scaleDownIdleJobs": False}
_OFF |= {"operator.suspectTaintPercent": 0}
_OFF |= {"operator.allocator.kindLabel": "", "operator.allocator.binding": "Scheduler"}
_OFF |= {"rbac.clusterTemplates": False}


def declared(owner: type = JobSpec) -> dict[str, Field]:
    """All fields of the spec, by class and name."""
    own = fields_of(owner)
    found = {f"{owner.__name__}.{name}": field for name, field in own.items()}
    for field in own.values():
        if isinstance(field.kind, Struct | Structs):
            found |= declared(field.kind.of)
    return found


def default_of(key: str) -> Any:
    value = yaml.safe_load(VALUES.read_text())
    for part in key.split("."):
        value = value[part]
    return value


def comment_above(key: str) -> str:
    """The comment directly above a key of the values."""
    lines, at = VALUES.read_text().splitlines(), -1
    for depth, part in enumerate(key.split(".")):
        at = lines.index(
            next(e for e in lines[at + 1 :] if e.startswith(f"{'  ' * depth}{part}:")), at + 1
        )
    first = at
    while lines[first - 1].lstrip().startswith("#"):
        first -= 1
    return "\n".join(lines[first:at])


def of(stage: Stage) -> list[Feature]:
    return [each for each in FEATURES if each.stage is stage]


@pytest.mark.proves("maturity.md#features/*")
def test_each_feature_names_a_page_fields_and_values_that_exist() -> None:
    fields = declared()
    assert [name for each in FEATURES for name in each.fields if name not in fields] == []
    for each in FEATURES:
        assert (ROOT / "docs" / each.page.partition("#")[0]).exists(), each.page
        for key in each.values:
            default_of(key)
    assert maturity.FILE.read_text() == maturity.document(), "make generate rewrites it"


@pytest.mark.parametrize("feature", of(Stage.ALPHA), ids=lambda each: each.name)
def test_an_alpha_feature_is_off_unless_switched_on(feature: Feature) -> None:
    assert feature.fields or feature.options or feature.values
    fields = declared()
    for option in feature.options:
        name, _, value = option.partition("=")
        kind = fields[name].kind
        assert isinstance(kind, OneOf)
        assert value in [*kind.enumeration]
        assert fields[name].default != value
    assert [
        name for name in feature.fields if fields[name].default or fields[name].is_required
    ] == []
    assert {key: default_of(key) for key in feature.values} == {k: _OFF[k] for k in feature.values}


@pytest.mark.parametrize("feature", [e for e in FEATURES if e.values], ids=lambda each: each.name)
def test_the_comment_of_a_value_says_its_stage(feature: Feature) -> None:
    for key in feature.values:
        assert re.search(rf"# {feature.stage.capitalize()}\b", comment_above(key)), key


def test_kubectl_explain_says_the_stage_of_a_field() -> None:
    (crd,) = yaml.safe_load_all((CHART / "files/dijobs-crd.yaml").read_text())
    version = next(e for e in crd["spec"]["versions"] if e["name"] == "v2alpha1")
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    task = spec["tasks"]["items"]["properties"]
    assert task["nodeCheck"]["description"].startswith("Alpha. ")
    assert spec["scheduling"]["properties"]["gang"]["description"].startswith("Beta. ")
    assert spec["checkpoint"]["description"].startswith("Stable. ")
