"""Kubeflow's SDK: a script calls `TrainingClient().create_job(train_func=...)`.

After an edit it is called with another name, because a job cannot be changed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from di_cluster.cluster import Cluster
from di_kube.client import KubeClient
from tests.ports import held_port
from tools.benchmarks import processes
from tools.benchmarks.account import Account
from tools.benchmarks.first_job.rounds import (
    FUNCTION,
    NAMESPACE,
    Place,
    Round,
    timed,
)
from tools.benchmarks.rival import Rival
from tools.prepare.environments import Environment

SDK: Final = Environment(name="kubeflow-sdk", packages=("kubeflow-training==1.9.4",))
_SCRIPT = """
from kubeflow.training import TrainingClient
{function}
TrainingClient().create_job(
    name="train-{number}", namespace="{namespace}", train_func=train, base_image="{image}"
)
"""


@asynccontextmanager
async def operator(
    cluster: Cluster, client: KubeClient, account: Account, logs: Path
) -> AsyncIterator[None]:
    """Run the training-operator on this machine."""
    rival = await Rival.installed(cluster, client, logs / "kubeflow-certificates")
    with held_port() as port:
        command = account.command([*rival.command("", port)])
        log = logs / "kubeflow.log"
        async with processes.running(command, log=log, environment=account.environment):
            await rival.mount_secret()
            yield


def measure(place: Place, edits: int) -> list[Round]:
    """Run a job, and another one for each edit."""
    python = SDK.python()
    found: list[Round] = []
    for number in range(edits + 1):
        with timed(number, found) as logs:
            function = FUNCTION.format(number=number)
            (place.folder / "submit.py").write_text(
                _SCRIPT.format(
                    function=function, number=number, namespace=NAMESPACE, image=place.image
                )
            )
            subprocess.run(
                [python, "submit.py"],
                cwd=place.folder,
                env={**os.environ, "KUBECONFIG": str(place.kubectl.kubeconfig)},
                stdout=sys.stderr,
                check=True,
            )
            logs.append(place.log_of(f"train-{number}-master-0"))
        place.delete("pytorchjob", f"train-{number}")
    return found
