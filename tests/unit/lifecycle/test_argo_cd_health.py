"""The health check for Argo CD in the documents, run on the statuses that the operator writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from lupa.lua51 import LuaRuntime

from tests.unit.lifecycle.cluster_model import ClusterModel, job, running

_PAGE: Final = Path(__file__).resolve().parents[3] / "docs/how-to/jobs-in-git.md"
_KEY: Final = "resource.customizations.health.diengine.opendilab.org_DIJob"
_BLOCK: Final = re.compile(rf"```yaml\n({re.escape(_KEY)}: .+?)```", re.DOTALL)


def _health(body: Any) -> tuple[str, str]:
    """What Argo CD would show: it runs the script with Lua 5.1 and the object in `obj`."""
    found = _BLOCK.search(_PAGE.read_text())
    assert found is not None
    lua: Any = LuaRuntime(unpack_returned_tuples=False)
    lua.globals().obj = lua.table_from(body, recursive=True)
    answer = lua.execute(yaml.safe_load(found[1])[_KEY])
    return str(answer.status), str(answer.message)


def _ended() -> ClusterModel:
    return running().succeed().settle()


def _failed() -> ClusterModel:
    return running(backoffLimit=0).fail("x-learner-0").settle()


def _changed() -> ClusterModel:
    cluster = running()
    cluster.job["metadata"]["generation"] += 1
    return cluster


def _hung() -> ClusterModel:
    cluster = running()
    hung = {"type": "Hung", "status": "True", "message": "no step since 10m"}
    cluster.status["conditions"].append(hung)
    return cluster


@pytest.mark.proves(
    "jobs-in-git.md#health-in-argo-cd/running-or-succeeded",
    "jobs-in-git.md#health-in-argo-cd/failed-or-hung",
    "jobs-in-git.md#health-in-argo-cd/suspended",
    "jobs-in-git.md#health-in-argo-cd/in-any-other-phase-or-changed-and-not",
)
@pytest.mark.parametrize(
    ("made", "health", "words"),
    [
        (lambda: ClusterModel(job()), "Progressing", "not handled the job"),
        (lambda: ClusterModel(job()).settle(), "Progressing", "Starting: created 4 pods"),
        (running, "Healthy", "Running: "),
        (_ended, "Healthy", "Succeeded: "),
        (_failed, "Degraded", "Failed: "),
        (_hung, "Degraded", "Hung: no step since 10m"),
        (lambda: running().edit(suspend=True).settle(), "Suspended", ""),
        (_changed, "Progressing", "not handled the last change"),
    ],
)
def test_argo_cd_shows_the_state_of_a_job(
    made: Callable[[], ClusterModel], health: str, words: str
) -> None:
    shown, message = _health(made().job)
    assert shown == health
    assert words in message
