"""The job of a trial: the template of the sweep with the parameters of the trial."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from di_api.base_template import with_base
from di_api.field_error import items, mapping
from di_api.names import (
    ANNOTATION_PARAMETERS,
    ANNOTATION_RUNGS,
    API_VERSION,
    ENV_CHECKPOINT_DIR,
    ENV_RESTORE_FROM,
    KIND,
    LABEL_SWEEP,
    LABEL_TRIAL,
)
from di_api.pods.main_container import main_container
from di_api.spec.checkpoint import Checkpoint
from di_api.spec.task import TaskType
from di_api.sweeps.field_path import parse_path, with_value
from di_api.sweeps.space import SEED, Space, Value
from di_api.sweeps.spec import SweepSpec, Target
from di_api.sweeps.trial import Trial, rungs_text

Object = dict[str, Any]


def trial_name(sweep: str, index: int) -> str:
    """Return the name of the job of a trial."""
    return f"{sweep}-{index}"


def trial_job(sweep: Mapping[str, Any], spec: SweepSpec, index: int) -> Object:
    """Return the job of a trial of a sweep, with the names and labels that identify it.

    Raises:
        SweepTooSmall: the sweep has no such trial.
        BadPath: the path of a parameter leads to nothing in the template.
    """
    return job_with(sweep, spec, index, Space(spec).parameters(index))


def copy_job(sweep: Mapping[str, Any], spec: SweepSpec, index: int, replaced: Trial) -> Object:
    """Return the job of a copy in a population, which restores the checkpoint of its source.

    Args:
        sweep: the sweep.
        spec: its spec.
        index: of the copy.
        replaced: the trial whose record has the copy.
    """
    assert replaced.copy is not None, "the trial is replaced"
    source = replaced.copy.source
    job = job_with(sweep, spec, index, replaced.copy.parameters)
    born = Trial(index=index, source=source, born=replaced.judged, judged=replaced.judged)
    job["metadata"]["annotations"][ANNOTATION_RUNGS] = rungs_text(born)
    folder = _checkpoint_folder(sweep, job["spec"], source)
    return {**job, "spec": _in_learners(job["spec"], ENV_RESTORE_FROM, folder)}


def checkpoint_name(sweep: Mapping[str, Any], index: int) -> str:
    """Return the name of a trial's folder below the directory of checkpoints.

    A later sweep of the same name has other folders, by its UID.
    """
    metadata = mapping(sweep.get("metadata"))
    uid = f".{metadata['uid']}" if metadata.get("uid") else ""
    return f"{trial_name(str(metadata.get('name')), index)}{uid}"


def job_with(
    sweep: Mapping[str, Any], spec: SweepSpec, index: int, parameters: Mapping[str, Value]
) -> Object:
    """Return the job of a trial with these parameters. Raises BadPath."""
    own, template = mapping(sweep.get("metadata")), mapping(spec.template.get("metadata"))
    job: Object = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": trial_name(str(own.get("name")), index),
            **({"namespace": own["namespace"]} if own.get("namespace") else {}),
            "labels": {
                **mapping(template.get("labels")),
                LABEL_SWEEP: str(own.get("name")),
                LABEL_TRIAL: str(index),
            },
            "annotations": {
                **mapping(template.get("annotations")),
                ANNOTATION_PARAMETERS: json.dumps(parameters, ensure_ascii=False),
            },
        },
        "spec": with_base(mapping(spec.template.get("spec"))),
    }
    for each in spec.parameters:
        job["spec"] = _written(job["spec"], each, parameters[each.name])
    if spec.seeds is not None:
        job["spec"] = _written(job["spec"], spec.seeds, parameters[SEED])
    if mapping(job["spec"]).get("checkpoint"):
        folder = _checkpoint_folder(sweep, job["spec"], index)
        job["spec"] = _in_learners(job["spec"], ENV_CHECKPOINT_DIR, folder)
    return job


def text_of(value: Value) -> str:
    """Return a value as an argument or a variable has it; JSON's spelling of booleans."""
    return value if isinstance(value, str) else json.dumps(value)


def _written(spec: Any, target: Target, value: Value) -> Any:
    if target.field is not None:
        return with_value(spec, parse_path(target.field), value)
    if target.argument is not None:
        option = target.argument
        return _in_tasks(spec, target.task, lambda each: _with_argument(each, option, value))
    name = str(target.environment)
    return _in_tasks(spec, target.task, lambda each: _with_variable(each, name, value))


def _in_tasks(spec: Any, task: str | None, change: Callable[[Object], Object]) -> Any:
    """Return a spec with changed main containers, of all tasks or of one."""
    tasks = items(mapping(spec).get("tasks"))
    changed = [
        each if task not in (None, _name(each)) else _changed(each, change) for each in tasks
    ]
    return {**mapping(spec), "tasks": changed}


def _checkpoint_folder(sweep: Mapping[str, Any], spec: Mapping[str, Any], index: int) -> str:
    """Return the path of a trial's checkpoints in its containers."""
    path = str(mapping(spec.get("checkpoint")).get("path") or Checkpoint().path)
    return f"{path.rstrip('/')}/{checkpoint_name(sweep, index)}"


def _in_learners(spec: Mapping[str, Any], name: str, value: str) -> Object:
    """Return a spec whose learners have a variable, in all of their containers."""
    tasks = []
    for each in items(spec.get("tasks")):
        template = mapping(mapping(each).get("template"))
        pod = mapping(template.get("spec"))
        containers = {
            kind: [
                _with_variable(dict(one), name, value) if isinstance(one, Mapping) else one
                for one in items(pod.get(kind))
            ]
            for kind in ("initContainers", "containers")
            if pod.get(kind)
        }
        is_learner = mapping(each).get("type") == TaskType.LEARNER
        changed = {**template, "spec": {**pod, **containers}}
        tasks.append({**each, "template": changed} if is_learner else each)
    return {**spec, "tasks": tasks}


def _name(task: object) -> object:
    return mapping(task).get("name") or mapping(task).get("type")


def _changed(task: Any, change: Callable[[Object], Object]) -> Any:
    template = mapping(mapping(task).get("template"))
    pod = mapping(template.get("spec"))
    containers = items(pod.get("containers"))
    main = main_container([each for each in containers if isinstance(each, dict)])
    changed = [
        change(each) if isinstance(each, dict) and each is main else each for each in containers
    ]
    return {**task, "template": {**template, "spec": {**pod, "containers": changed}}}


def _with_variable(container: Object, name: str, value: Value) -> Object:
    others = [each for each in items(container.get("env")) if mapping(each).get("name") != name]
    return {**container, "env": [*others, {"name": name, "value": text_of(value)}]}


def _with_argument(container: Object, option: str, value: Value) -> Object:
    """Return a container whose program gets an option, in place of its value in the template."""
    text = text_of(value)
    for key in ("args", "command"):
        words = items(container.get(key))
        for index, word in enumerate(words):
            if word == option and index + 1 < len(words):
                return {**container, key: [*words[: index + 1], text, *words[index + 2 :]]}
            if isinstance(word, str) and word.startswith(f"{option}="):
                return {**container, key: [*words[:index], f"{option}={text}", *words[index + 1 :]]}
    # Arguments follow the command, and replace those of the image.
    return {**container, "args": [*items(container.get("args")), option, text]}
