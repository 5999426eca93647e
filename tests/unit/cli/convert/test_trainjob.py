"""TrainJobs of Kubeflow Trainer become DIJobs whose task is the group of nodes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_api.validation import validate_job
from di_cli.convert.fields import RefusedManifest
from tests.unit.cli.convert.manifests import (
    WORDS,
    Object,
    convert_one,
    lost,
    manifests,
    outcome,
    some,
)

_VERSION = "trainer.kubeflow.org/v1alpha1"


def trainjob(runtime: str = "torch-distributed", *, trainer: Any = None, **spec: Any) -> Object:
    top = {"apiVersion": _VERSION, "kind": "TrainJob", "metadata": {"name": "j"}}
    of = {"image": "x", **(trainer or {})}
    of = {name: value for name, value in of.items() if value is not None}
    return {**top, "spec": {"runtimeRef": {"name": runtime}, "trainer": of, **spec}}


def task_of(manifest: Object) -> Object:
    (task,) = convert_one(manifest).job["spec"]["tasks"]
    found: Object = task
    return found


@pytest.mark.proves("from-other-operators.md#trainjob/*")
def test_the_nodes_are_one_group_with_the_container_of_the_trainer() -> None:
    trainer = {"numNodes": 3, "numProcPerNode": 2, "env": [{"name": "A", "value": "b"}]}
    resources = {"limits": {"nvidia.com/gpu": 2}}
    manifest = trainjob(
        trainer={**trainer, "resourcesPerNode": resources, "args": ["-x"]}, labels={"team": "a"}
    )
    assert task_of(manifest) == {
        "type": "learner",
        "replicas": 3,
        "processGroup": {"framework": "torch", "processesPerReplica": 2},
        "template": {
            "metadata": {"labels": {"team": "a"}},
            "spec": {
                "containers": [
                    {
                        **{"name": "node", "image": "x", "args": ["-x"], "env": trainer["env"]},
                        "resources": resources,
                    }
                ]
            },
        },
    }
    (_, rule) = convert_one(manifest).job["spec"]["failurePolicy"]["rules"]
    assert rule == {"tasks": ["learner"], "action": "RestartTask"}


@pytest.mark.parametrize(
    ("runtime", "processes", "group"),
    [
        ("torch-distributed", None, {"framework": "torch"}),
        ("torch-distributed", "cpu", {"framework": "torch"}),
        ("jax-distributed", 4, {"framework": "jax"}),
        ("torchtune-small", None, {"framework": "torch"}),
        ("deepspeed-distributed", 4, {"framework": "mpi", "processesPerReplica": 4}),
        ("compiled", None, None),
    ],
)
def test_the_name_of_the_runtime_gives_the_framework(
    runtime: str, processes: Any, group: Object | None
) -> None:
    trainer = {"numProcPerNode": processes, "command": ["mpirun", "train"]}
    found = task_of(trainjob(runtime, trainer=trainer))
    assert found.get("processGroup") == group


@pytest.mark.parametrize(
    ("manifest", "place"),
    [
        (trainjob(trainer={"image": None}), "spec.trainer.image"),
        (trainjob("deepspeed-distributed"), "spec.trainer.command"),
        (
            trainjob("mpi-distributed", trainer={"command": ["mpirun", "/etc/mpi/hostfile"]}),
            "spec.trainer.command[1]",
        ),
        (trainjob(initializer={"dataset": {}}), "spec.initializer"),
        (trainjob(trainer={"numProcPerNode": "many"}), "spec.trainer.numProcPerNode"),
    ],
)
def test_what_a_dijob_cannot_do_is_refused(manifest: Object, place: str) -> None:
    with pytest.raises(RefusedManifest) as refused:
        convert_one(manifest)
    assert refused.value.place == place
    assert refused.value.remedy


def _manifests() -> st.SearchStrategy[Object]:
    variables = st.fixed_dictionaries({"name": WORDS, "value": WORDS})
    trainer = some(
        {"image": WORDS},
        {
            **{"command": st.lists(WORDS, max_size=2), "args": st.lists(WORDS, max_size=2)},
            **{"env": st.lists(variables, max_size=1), "numNodes": st.just(7)},
            "numProcPerNode": st.sampled_from([5, "auto", "cpu"]),
            "resourcesPerNode": st.just({"limits": {"nvidia.com/gpu": 6}}),
        },
    )
    runtime = some(
        {"name": st.sampled_from(["torch-distributed", "jax-distributed", "ours"])},
        {"kind": WORDS, "apiGroup": WORDS},
    )
    overrides = st.just([{"targetJobs": [{"name": "node"}], "spec": {"nodeSelector": {"a": "v1"}}}])
    spec = some(
        {"runtimeRef": runtime, "trainer": trainer},
        {
            **{"labels": st.dictionaries(WORDS, WORDS, max_size=1), "suspend": st.just(True)},
            **{"annotations": st.dictionaries(WORDS, WORDS, max_size=1)},
            **{"podTemplateOverrides": overrides, "podSpecOverrides": overrides},
            "managedBy": st.sampled_from(
                ["trainer.kubeflow.org/trainjob-controller", "example.org/x"]
            ),
        },
    )
    return manifests("TrainJob", spec, _VERSION)


@given(_manifests())
def test_no_field_of_a_trainjob_is_lost(manifest: Object) -> None:
    found = outcome(manifest)
    assert not isinstance(found, str), found
    assert lost(manifest, found) == []
    assert validate_job(found.job) == []
