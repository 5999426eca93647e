"""Data shards over HTTP: what workers get while servers and workers are killed.

`python -m tools.faults.data_shards` kills more of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from di_kube.sync import SyncKubeClient
from tests.integration.conftest import ApiServer
from tests.integration.di_server import new_job, read_job, set_status
from tools.faults.data_shards import kill_and_count

pytestmark = pytest.mark.usefixtures("crd")

KILLS = 10


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
