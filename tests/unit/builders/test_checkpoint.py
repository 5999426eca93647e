"""What learners get for their checkpoints, through the decisions that make their pods."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.lifecycle.cluster_model import ClusterModel, job, task

CLAIM = {"persistentVolumeClaim": "models", "path": "/models", "graceSeconds": 90}
LEARNER, OTHER = "x-learner-0", "x-collector-0"


def made(*, profilings: object = None, **learner: Any) -> ClusterModel:
    """A settled job of a learner, whose pod spec is given, and a collector."""
    container = {"name": "di-container", "image": "train:1"}
    template = {"spec": {"containers": [container], **learner}}
    body = job(task("learner", template=template), task("collector"), checkpoint=CLAIM)
    if profilings is not None:
        body["status"] = {"profilings": profilings}
    return ClusterModel(body).settle()


def checkpoint_variables(cluster: ClusterModel, pod: str) -> dict[str, str]:
    names = ("DI_CHECKPOINT_DIR", "DI_RESTORE_STEP")
    return {name: value for name, value in cluster.env(pod).items() if name in names}


@pytest.mark.proves(
    "dijob.md#spec/checkpoint-volume",
    "dijob.md#spec/checkpoint-persistentvolumeclaim",
    "dijob.md#spec/checkpoint-path",
    "dijob.md#checkpoints/di-checkpoint-dir",
)
def test_only_learners_mount_the_checkpoint_claim() -> None:
    cluster = made(initContainers=[{"name": "fetch", "image": "fetch:1"}])
    spec = cluster.pods[LEARNER]["spec"]
    source = {"claimName": "models"}
    assert spec["volumes"] == [{"name": "di-checkpoint", "persistentVolumeClaim": source}]
    mount = {"name": "di-checkpoint", "mountPath": "/models"}
    for container in (*spec["containers"], *spec["initContainers"]):
        assert container["volumeMounts"] == [mount]
        assert {"name": "DI_CHECKPOINT_DIR", "value": "/models"} in container["env"]
    other = cluster.pods[OTHER]["spec"]
    assert not {"volumes", "terminationGracePeriodSeconds"} & other.keys()
    assert checkpoint_variables(cluster, OTHER) == {}


@pytest.mark.proves("roles.md#several-tasks-of-a-type/checkpoint")
def test_all_learner_tasks_get_it() -> None:
    body = job(task("learner"), task("critic", type="learner"), task("judge"), checkpoint=CLAIM)
    cluster = ClusterModel(body).settle()
    told = {pod: checkpoint_variables(cluster, pod) for pod in cluster.pods}
    where = {"DI_CHECKPOINT_DIR": "/models"}
    assert told == {LEARNER: where, "x-critic-0": where, "x-judge-0": {}}


@pytest.mark.proves("dijob.md#spec/checkpoint-graceseconds")
@pytest.mark.parametrize(("own", "seconds"), [(None, 90), (5, 5), (0, 0), (600, 600)])
def test_the_templates_grace_period_wins_over_the_checkpoints(
    own: int | None, seconds: int
) -> None:
    given = {} if own is None else {"terminationGracePeriodSeconds": own}
    spec = made(**given).pods[LEARNER]["spec"]
    assert spec["terminationGracePeriodSeconds"] == seconds


@pytest.mark.proves(
    "allocation.md#what-a-job-reports/checkpointstep", "dijob.md#checkpoints/di-restore-step"
)
@pytest.mark.parametrize(
    ("reported", "step"),
    [
        *((0, "0"), (1200, "1200"), (1200.0, "1200"), (2**63 - 1, str(2**63 - 1))),
        *((-1, None), (1.5, None), (2**63, None), (1e300, None), (float("nan"), None)),
        *((True, None), ("1200", None), ([], None), (None, None)),
    ],
)
def test_only_a_reported_step_is_passed_on(reported: object, step: str | None) -> None:
    cluster = made(profilings={"checkpointStep": reported})
    told = {} if step is None else {"DI_RESTORE_STEP": step}
    assert checkpoint_variables(cluster, LEARNER) == {"DI_CHECKPOINT_DIR": "/models", **told}
    assert "DI_RESTORE_STEP" not in cluster.env(OTHER)


@pytest.mark.parametrize("profilings", [[], "x", {"checkpointStep": {}}, {"envSteps": 5}])
def test_reports_of_another_shape_name_no_step(profilings: object) -> None:
    assert "DI_RESTORE_STEP" not in made(profilings=profilings).env(LEARNER)


def test_the_next_learner_gets_the_last_step() -> None:
    cluster = made().run(LEARNER, OTHER).settle()
    assert "DI_RESTORE_STEP" not in cluster.env(LEARNER)
    cluster.patch_status({"profilings": {"checkpointStep": 700}}).fail(LEARNER, code=1)
    cluster.settle()
    assert cluster.env(LEARNER)["DI_RESTORE_STEP"] == "700"


def test_variables_of_the_users_own_win() -> None:
    own = [
        {"name": "DI_CHECKPOINT_DIR", "value": "/mine"},
        {"name": "DI_RESTORE_STEP", "value": "5"},
    ]
    containers = [{"name": "di-container", "image": "train:1", "env": own}]
    cluster = made(profilings={"checkpointStep": 7}, containers=containers)
    env = cluster.pods[LEARNER]["spec"]["containers"][0]["env"]
    assert [each for each in env if each in own or each["name"].startswith("DI_REST")] == own
