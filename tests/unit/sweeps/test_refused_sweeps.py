"""Sweeps that break rules, each with the path of the fault."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_api.field_error import InvalidSpec
from di_api.sweeps import load_sweep, validate_sweep
from tests.unit.sweeps.sweeps import LR, sweep, template

_P: Mapping[str, Any] = {"name": "p", "environment": "P"}
_SEEDS = {"count": 2, "environment": "SEED"}
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


def _one(**fields: Any) -> dict[str, Any]:
    return {"parameters": [{**_P, **fields}]}


def _population(**fields: Any) -> dict[str, Any]:
    """A population of four with one fault."""
    own: dict[str, Any] = {
        key: fields.pop(key) for key in ("quantile", "perturbation", "resample") if key in fields
    }
    saving = template()
    saving["spec"]["checkpoint"] = {"persistentVolumeClaim": "saved"}
    rule = {"size": 4, "interval": 10, **own}
    return {"population": rule, "parallelism": 4, "template": saving, **fields}


@pytest.mark.proves("sweeps.md#what-is-refused")
@pytest.mark.parametrize(
    ("change", "path", "message"),
    [
        ({"objective": None}, "spec.objective", "is required"),
        ({"objective": {"metric": "r", "goal": "Up"}}, "spec.objective.goal", "must be one of"),
        ({"color": "red"}, "spec.color", "unknown field"),
        ({"maxTrials": 0}, "spec.maxTrials", "must be 1 or more"),
        ({"maxTrials": None}, "spec.maxTrials", "is required with sampler Random"),
        ({"maxTrials": 3, "seeds": _SEEDS}, "spec.maxTrials", "must be a multiple of seeds.count"),
        ({"maxGpuHours": 0}, "spec.maxGpuHours", "must be above 0"),
        ({"parameters": None}, "spec.parameters", "is required, or seeds"),
        ({"parameters": [LR, LR]}, "spec.parameters[1].name", "is the name of another parameter"),
        (
            {"parameters": [{**_P, "name": "seed", "values": [1]}], "seeds": _SEEDS},
            "spec.parameters[0].name",
            "is the name of another parameter",
        ),
        (_one(), "spec.parameters[0]", "must have one of values"),
        (
            _one(values=[1], uniform={"min": 0, "max": 1}),
            "spec.parameters[0]",
            "it has values and uniform",
        ),
        (_one(values=[]), "spec.parameters[0].values", "must hold at least one value"),
        (_one(values=[[1]]), "spec.parameters[0].values[0]", "must be a string, a number"),
        (_one(uniform={"min": 1, "max": 1}), "spec.parameters[0].uniform.max", "must be above min"),
        (_one(logUniform={"min": 0, "max": 1}), "spec.parameters[0].logUniform.min", "above 0"),
        (_one(int={"min": 0.5, "max": 1}), "spec.parameters[0].int.min", "must be a whole number"),
        (
            _one(quniform={"min": 0, "max": 1, "step": 0}),
            "spec.parameters[0].quniform.step",
            "must be above 0",
        ),
        (_one(argument="--p", values=[1]), "spec.parameters[0]", "it has argument and environment"),
        (_one(task="judge", values=[1]), "spec.parameters[0].task", "is no task of the template"),
        (
            {"parameters": [{"name": "p", "field": "a..b", "values": [1]}]},
            "spec.parameters[0].field",
            "must be a path",
        ),
        (
            {"parameters": [LR, {"name": "p", "field": "tasks[4].replicas", "values": [1]}]},
            "spec.parameters[1].field",
            "none with index 4",
        ),
        (
            {"parameters": [{"name": "p", "field": "tasks[0].replicas", "values": [1, -1]}]},
            "spec.parameters[0]",
            "is not possible: spec.template.spec.tasks[0].replicas",
        ),
        (
            {
                "parameters": [
                    {"name": "p", "field": "tasks[0].replicas", "int": {"min": -2, "max": 3}}
                ]
            },
            "spec.parameters[0]",
            "is not possible: spec.template.spec.tasks[0].replicas",
        ),
        ({"sampler": "Grid"}, "spec.parameters[0]", "has no finite number of values"),
        (
            {**_one(int={"min": 1, "max": 20_000}), "sampler": "Grid", "maxTrials": None},
            "spec.maxTrials",
            "the grid has 20000 trials",
        ),
        ({"template": {}}, "spec.template.spec", "is required"),
        ({"template": {**template(), "kind": "DIJob"}}, "spec.template.kind", "unknown field"),
        (
            {"template": {**template(), "metadata": {"name": "x"}}},
            "spec.template.metadata.name",
            "unknown field",
        ),
        (
            {"template": {"spec": {**template()["spec"], "suspend": True}}},
            "spec.template.spec.suspend",
            "is how a sweep stops a trial",
        ),
        (
            {"template": {"spec": {**template()["spec"], "ttlSecondsAfterFinished": 9}}},
            "spec.template.spec.ttlSecondsAfterFinished",
            "would delete the values",
        ),
        (
            {
                "template": {
                    "spec": {
                        **template()["spec"],
                        "idlePolicy": {"waitingShare": 80, "action": "Suspend"},
                    }
                }
            },
            "spec.template.spec.idlePolicy.action",
            "would have the sweep wait",
        ),
        (
            {"template": {"spec": {**template()["spec"], "backoffLimit": -1}}},
            "spec.template.spec.backoffLimit",
            "must be",
        ),
        (
            {
                "template": {
                    "spec": {
                        **template()["spec"],
                        "coordinated": {},
                        "checkpoint": {"persistentVolumeClaim": "mine"},
                    }
                }
            },
            "spec.template.spec.checkpoint",
            "would be shared by all trials",
        ),
        ({"population": {"size": 1, "interval": 9}}, "spec.population.size", "must be 2 or more"),
        ({"population": {"size": 4}}, "spec.population.interval", "is required"),
        (
            _population(template=template()),
            "spec.template.spec.checkpoint",
            "is required with population",
        ),
        (_population(parallelism=3), "spec.parallelism", "at least population.size, which is 4"),
        (_population(maxTrials=3), "spec.maxTrials", "at least population.size, which is 4"),
        (
            _population(earlyStopping={"firstStep": 1}),
            "spec.earlyStopping",
            "would stop trials that population replaces",
        ),
        (_population(seeds=_SEEDS), "spec.seeds", "a population compares single trials"),
        (
            _population(sampler="Grid", **_one(values=[1, 2])),
            "spec.sampler",
            "use Random or QuasiRandom",
        ),
        (_population(parameters=None), "spec.parameters", "copies have other parameters"),
        (_population(quantile=0.6), "spec.population.quantile", "must be 0.5 or less"),
        (_population(perturbation=1), "spec.population.perturbation", "must be below 1"),
        (_population(resample=-0.1), "spec.population.resample", "must be from 0 to 1"),
        ({"earlyStopping": {"firstStep": 0}}, "spec.earlyStopping.firstStep", "must be 1 or more"),
        (
            {"earlyStopping": {"firstStep": 1, "reduction": 1}},
            "spec.earlyStopping.reduction",
            "must be 2 or more",
        ),
    ],
)
def test_a_fault_is_shown_with_its_path(change: Mapping[str, Any], path: str, message: str) -> None:
    (error,) = validate_sweep(sweep(**change))
    assert error.path == path
    assert message in error.advice


def test_the_name_of_the_last_job_has_to_fit() -> None:
    manifest = sweep(maxTrials=1000)
    manifest["metadata"]["name"] = "x" * 50
    (error,) = validate_sweep(manifest)
    assert error.path == "metadata.name"


def test_a_sweep_without_a_name_is_refused() -> None:
    manifest = sweep()
    del manifest["metadata"]
    (error,) = validate_sweep(manifest)
    assert error.path == "metadata.name"


def test_a_refused_sweep_is_not_loaded() -> None:
    with pytest.raises(InvalidSpec, match=r"spec\.maxTrials"):
        load_sweep(sweep(maxTrials=0))


@given(field=st.sampled_from(sorted(sweep()["spec"])), value=_JSON)
def test_any_value_of_a_field_is_checked_without_an_error_of_ours(field: str, value: Any) -> None:
    manifest = sweep()
    manifest["spec"][field] = value
    validate_sweep(manifest)
