"""The secret of a job: all of its pods have it, or none has."""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from typing import Any

import pytest

from di_api import names
from di_operator.builders.access import drain_token
from tests.unit.lifecycle.cluster_model import SETTINGS, ClusterModel, job, task

KEY = b"k" * 32
DRAIN = {"path": "/drain", "port": 8000, "timeoutSeconds": 20}


def cluster(*tasks: dict[str, Any], uid: str = "uid-x", key: bytes | None = KEY) -> ClusterModel:
    found = ClusterModel(job(*tasks, uid=uid))
    found.settings = replace(SETTINGS, job_secret_key=key)
    return found


def secrets_of(found: ClusterModel) -> list[str | None]:
    return [found.env(pod).get(names.ENV_JOB_SECRET) for pod in sorted(found.pods)]


@pytest.mark.proves("security.md#ports-in-the-pods-of-jobs/*")
def test_all_pods_of_a_job_have_one_secret_and_another_job_has_another() -> None:
    mine = secrets_of(cluster().settle())
    assert len(set(mine)) == 1
    assert len(mine) == 4
    assert re.fullmatch("[0-9a-f]{64}", str(mine[0]))
    others = [cluster(uid="uid-y").settle(), cluster(key=b"j" * 32).settle()]
    assert len({mine[0], *(secrets_of(each)[0] for each in others)}) == 3


def test_a_pod_that_is_made_again_has_the_same_secret() -> None:
    found = cluster().settle()
    before = secrets_of(found)
    found.run().fail("x-learner-0").settle().end_deleted().settle()
    assert secrets_of(found) == before


def test_beside_pods_of_an_earlier_version_no_pod_has_a_secret() -> None:
    found = cluster(key=None).settle()
    found.run()
    found.settings = replace(SETTINGS, job_secret_key=KEY)
    found.scale("collector", 4)
    found.settle()
    assert secrets_of(found) == [None] * 5
    # Once all are made again, all have it.
    found.edit(suspend=True).settle().end_deleted().settle()
    found.edit(suspend=False).settle()
    assert None not in secrets_of(found)
    assert len(found.pods) == 5


@pytest.mark.parametrize("key", [KEY, None])
def test_the_kubelet_shows_a_token_that_does_not_tell_the_secret(key: bytes | None) -> None:
    found = cluster(task("collector", drain=copy.deepcopy(DRAIN)), key=key).settle()
    (pod,) = found.pods.values()
    hook = pod["spec"]["containers"][0]["lifecycle"]["preStop"]["httpGet"]
    if key is None:
        assert hook == {"path": "/drain", "port": 8000}
        return
    (secret,) = secrets_of(found)
    assert secret is not None
    assert hook["httpHeaders"] == [{"name": "DI-Drain-Token", "value": drain_token(secret)}]
    assert secret not in str(hook)
