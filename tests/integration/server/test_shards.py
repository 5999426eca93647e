"""Data shards over HTTP: what workers get while servers and workers are killed.

`python -m tools.faults.data_shards` kills more of them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from di_kube.resources import DIJOBS
from di_kube.sync import SyncKubeClient
from tests.integration.conftest import ApiServer
from tests.integration.di_server import (
    new_job,
    new_pod,
    read_job,
    running_server,
    session_from,
    set_status,
)
from tools.faults.data_shards import kill_and_count

pytestmark = pytest.mark.usefixtures("crd")

KILLS = 10
POD = "127.9.3.1"


@pytest.mark.proves("rest.md#data-shards")
def test_no_shard_is_lost_or_done_twice_while_workers_and_servers_are_killed(
    api_server: ApiServer, kube: SyncKubeClient, namespace: str, tmp_path: Path
) -> None:
    job = new_job(kube, namespace)
    set_status(kube, job, {"phase": "Running"})
    outcome = kill_and_count(job, api_server.kubeconfig, tmp_path, kills=KILLS, seed=2, lease=10)
    assert min(outcome.kills_of_servers, outcome.kills_of_workers) > 0
    assert (outcome.lost, outcome.doubled) == (0, 0)
    found = read_job(kube, job)["status"]["shards"]["prompts"]
    assert (found["done"], found["total"]) == (outcome.shards, outcome.shards)
    assert not found.get("leases")


def test_the_managed_fields_of_a_job_name_no_worker(
    api_server: ApiServer, kube: SyncKubeClient, namespace: str, tmp_path: Path
) -> None:
    job = new_job(kube, namespace)
    set_status(kube, job, {"phase": "Running"})
    new_pod(kube, job, 0, POD)
    with (
        running_server(tmp_path, api_server.kubeconfig, auth="optional") as server,
        session_from(POD) as session,
    ):
        path = server.members_of(job).replace("/members", "/shards/prompts")
        asked = {"size": 10, "worker": "worker-1"}
        assert session.post(path, json=asked, timeout=60).status_code == 200
    stored = kube.get(DIJOBS, job["metadata"]["name"], namespace)
    assert [*stored["status"]["shards"]["prompts"]["leases"]] == ["worker-1"]
    # A thousand workers would make the object twice as large.
    managed = json.dumps(stored["metadata"]["managedFields"])
    assert "f:shards" in managed
    assert "worker-1" not in managed
