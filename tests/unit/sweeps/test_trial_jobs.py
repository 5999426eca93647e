"""The jobs of trials."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from di_api.sweeps import load_sweep, rungs_text, trial_job
from di_api.sweeps.field_path import BadPath, parse_path, with_value
from di_api.sweeps.trial import Trial, read_trial
from di_api.validation import validate_job
from tests.unit.sweeps.sweeps import LR, START, spec_of, sweep, template

Object = dict[str, Any]


def _job(parameter: Mapping[str, Any], **more: Any) -> Object:
    manifest = sweep(parameters=[{"name": "p", **parameter}], maxTrials=1, **more)
    job: Object = trial_job(manifest, load_sweep(manifest), 0)
    assert not validate_job(job)
    return job


def _main(job: Object) -> Object:
    found: Object = job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    return found


@pytest.mark.proves("sweeps.md#parameters")
@pytest.mark.parametrize(
    ("container", "key", "words"),
    [
        ({}, "args", ["--lr", "0.5"]),
        ({"args": ["--steps", "9"]}, "args", ["--steps", "9", "--lr", "0.5"]),
        ({"args": ["--lr", "1", "--steps", "9"]}, "args", ["--lr", "0.5", "--steps", "9"]),
        ({"args": ["--lr=1"]}, "args", ["--lr=0.5"]),
        ({"command": ["train", "--lr", "1"]}, "command", ["train", "--lr", "0.5"]),
    ],
)
def test_an_argument_takes_the_place_of_the_template_s_value(
    container: Object, key: str, words: list[str]
) -> None:
    job = _job({"argument": "--lr", "values": [0.5]}, template=template(**container))
    assert _main(job)[key] == words


@pytest.mark.proves("sweeps.md#parameters")
def test_a_variable_takes_the_place_of_the_template_s_value() -> None:
    env = [{"name": "P", "value": "1"}, {"name": "Q", "value": "2"}]
    job = _job({"environment": "P", "values": [True]}, template=template(env=env))
    assert _main(job)["env"] == [env[1], {"name": "P", "value": "true"}]


@pytest.mark.proves("sweeps.md#parameters")
@pytest.mark.parametrize("path", ["tasks[learner].replicas", "tasks[0].replicas"])
def test_a_field_gets_the_value_itself(path: str) -> None:
    job = _job({"field": path, "values": [3]})
    assert job["spec"]["tasks"][0]["replicas"] == 3


@pytest.mark.proves("sweeps.md#parameters")
def test_a_task_alone_gets_the_argument() -> None:
    both = template()
    both["spec"]["tasks"] += template(name="collector")["spec"]["tasks"]
    job = _job({"argument": "--lr", "values": [1], "task": "collector"}, template=both)
    containers = [each["template"]["spec"]["containers"][0] for each in job["spec"]["tasks"]]
    assert [each.get("args") for each in containers] == [None, ["--lr", "1"]]


def test_a_trial_has_the_labels_of_its_sweep_and_of_the_template() -> None:
    labelled = {**template(), "metadata": {"labels": {"owner": "me"}, "annotations": {"a": "b"}}}
    metadata = _job({"argument": "--lr", "values": [1]}, template=labelled)["metadata"]
    assert metadata["name"] == "tune-0"
    assert metadata["labels"] == {"owner": "me", "diengine/sweep": "tune", "diengine/trial": "0"}
    assert json.loads(metadata["annotations"].pop("diengine/parameters")) == {"p": 1}
    assert metadata["annotations"] == {"a": "b"}


def test_the_template_is_not_changed() -> None:
    manifest = sweep()
    before = json.dumps(manifest)
    trial_job(manifest, load_sweep(manifest), 3)
    assert json.dumps(manifest) == before


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("priority", ["priority"]),
        ("tasks[collector].replicas", ["tasks", "collector", "replicas"]),
        ("tasks[10].replicas", ["tasks", 10, "replicas"]),
        ('limits["nvidia.com/gpu"]', ["limits", "nvidia.com/gpu"]),
    ],
)
def test_paths_are_read_as_keys(text: str, keys: list[str | int]) -> None:
    assert parse_path(text) == keys


@pytest.mark.parametrize("text", ["", ".a", "[0]", "a..b", "a[", "a[]", "a b", "a.", "a[-1]"])
def test_a_path_that_is_not_well_formed_is_refused(text: str) -> None:
    with pytest.raises(BadPath):
        parse_path(text)


@pytest.mark.parametrize("text", ["tasks[2].replicas", "tasks[no].replicas", "a.b", "tasks[0].a.b"])
def test_a_path_that_leads_nowhere_is_refused(text: str) -> None:
    with pytest.raises(BadPath):
        with_value(template()["spec"], parse_path(text), 1)


def test_a_trial_is_read_from_its_job() -> None:
    spec = spec_of(earlyStopping={"firstStep": 2, "progress": "envSteps"})
    trial = Trial(index=3, rungs={2: 1.5}, judged=2, stopped="budget", seconds=7.0)
    job = {
        "metadata": {
            "labels": {"diengine/trial": "3"},
            "annotations": {"diengine/rungs": rungs_text(trial)},
        },
        "spec": template(resources={"limits": {"nvidia.com/gpu": "2"}})["spec"],
        "status": {
            "phase": "Running",
            "startTime": "2025-12-31T00:00:00Z",
            "profilings": {"step": 1, "envSteps": 4, "rollout/ep_rew_mean": 2.5},
        },
    }
    found = read_trial(job, spec, START)
    assert found is not None
    assert (found.index, found.rungs, found.judged, found.stopped) == (3, {2: 1.5}, 2, "budget")
    assert (found.step, found.value, found.gpus, found.seconds) == (4.0, 2.5, 2, 7.0)
    assert not found.is_active


@pytest.mark.parametrize(
    "annotation",
    ["", "[]", "{", '{"rungs": 3, "judged": "x", "stopped": 1}', '{"rungs": {"a": 1}}'],
)
def test_an_annotation_that_is_not_valid_is_ignored(annotation: str) -> None:
    metadata = {"labels": {"diengine/trial": "0"}, "annotations": {"diengine/rungs": annotation}}
    found = read_trial(
        {"metadata": metadata, "spec": {}, "status": {"phase": "?"}}, spec_of(), START
    )
    assert found == Trial(index=0)


def test_a_job_without_an_index_is_no_trial() -> None:
    assert read_trial({"metadata": {"labels": {}}}, spec_of(), START) is None


def test_parameters_are_written_in_their_order() -> None:
    manifest = sweep(parameters=[LR, {"name": "n", "environment": "N", "values": [1]}])
    job = trial_job(manifest, load_sweep(manifest), 0)
    assert list(json.loads(job["metadata"]["annotations"]["diengine/parameters"])) == ["lr", "n"]
