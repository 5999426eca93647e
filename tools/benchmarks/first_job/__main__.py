"""Seconds from the command to the first line of an own program, and again after an edit.

    python -m tools.benchmarks.first_job [--edits 5] [--only ours,ray,kubeflow]

On a node of this machine that has the images, one way after the other, each with a job of one pod.
Prints the table of docs/explanation/first-job.md.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from di_cluster.cluster import Cluster
from di_cluster.release import Release
from di_cluster.reporter import Reporter
from di_kube.client import KubeClient
from di_kube.config import load_config
from tests.e2e.kubectl import Kubectl
from tools.benchmarks.account import account
from tools.benchmarks.first_job import kubeflow, ours, ray
from tools.benchmarks.first_job.rounds import Place, Round, row
from tools.benchmarks.processes import ROOT

WAYS: Final = ("ours", "ray", "kubeflow")
_OUT = ROOT / "out/bench/first_job"
Rows = list[tuple[str, list[Round]]]


async def measure(cluster: Cluster, reporter: Reporter, only: list[str], edits: int) -> Rows:
    """Install what the ways need, then measure each."""
    kubectl = Kubectl(program=cluster.binary("kubectl"), kubeconfig=cluster.kubeconfig)
    release = Release(cluster, root=ROOT, reporter=reporter)
    images = release.build_images()
    release.install(images)
    logs = _OUT / "logs"
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    rows: Rows = []

    async def of_way(measured: Callable[[Place], Rows], image: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            place = Place(kubectl=kubectl, folder=Path(folder), image=image)
            rows.extend(await asyncio.to_thread(measured, place))

    async with AsyncExitStack() as stack:
        config = load_config(str(cluster.kubeconfig))
        client = await stack.enter_async_context(KubeClient(config=config, timeout=60))
        identity = await stack.enter_async_context(account(client, config, logs / "account"))
        plain = images["server"].reference
        if "ours" in only:
            await of_way(
                lambda place: [("`di submit`, `di push`", ours.measure(place, edits))], plain
            )
        if "kubeflow" in only:
            kubeflow.SDK.make()
            async with kubeflow.operator(cluster, client, identity, logs):
                await of_way(
                    lambda place: [("Kubeflow SDK, another job", kubeflow.measure(place, edits))],
                    plain,
                )
        if "ray" in only:
            ray.CLIENT.make()
            image = cluster.build_image(Path(__file__).parent, "di-benchmark-ray:dev")
            cluster.load_image(image)
            async with ray.operator(cluster, client, identity, logs):
                await of_way(lambda place: _of_ray(place, edits), image.reference)
    return rows


def _of_ray(place: Place, edits: int) -> Rows:
    new, same = ray.measure(place, edits)
    return [("Ray, another RayJob", new), ("Ray, in the same Ray cluster", same)]


def table(rows: Rows) -> str:
    """Return the times as a table in Markdown."""
    head = (
        "| | first line, s | after an edit, median, s | longest, s | load |\n|---|---|---|---|---|"
    )
    return "\n".join([head, *(row(way, rounds) for way, rounds in rows)])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--edits", type=int, default=5)
    parser.add_argument("--only", default=",".join(WAYS))
    arguments = parser.parse_args()
    reporter = Reporter(sys.stderr)
    cluster = Cluster(f"bench-{secrets.token_hex(3)}", profile="node", reporter=reporter)
    try:
        cluster.up()
        only = arguments.only.split(",")
        print(table(asyncio.run(measure(cluster, reporter, only, arguments.edits))))
    finally:
        cluster.down(purge=True)


if __name__ == "__main__":
    main()
