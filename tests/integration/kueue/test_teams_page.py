"""The manifests of docs/how-to/teams.md, applied as they stand there."""

from __future__ import annotations

from pathlib import Path

from di_kube.config import KubeConfig
from tests.integration.admitting import admitting
from tests.integration.conftest import named_namespace
from tests.integration.kueue.bed import ALL, Bed, on_bed
from tests.integration.kueue.installation import forget_workloads, installed
from tests.integration.kueue.pages import manifests, read_page
from tests.integration.webhook_process import WebhookProcess


def test_the_job_of_the_page_runs_with_the_quota_of_the_page(
    kube_config: KubeConfig, webhook: WebhookProcess
) -> None:
    *queues, job = manifests(read_page("how-to/teams.md"), Path(__file__).name)

    async def body(bed: Bed) -> None:
        async with installed(bed.testbed.client, *queues), bed.testbed.operator():
            try:
                await bed.submit(job)
                await bed.until_running(grpo=4)
                admitted = await bed.admitted()
                assert "grpo-core" in admitted
                assert sum(name.startswith("grpo-collector-x") for name in admitted) == 2
            finally:
                await forget_workloads(bed.testbed.client, bed.testbed.namespace)

    with named_namespace(kube_config, "team-a"), admitting(webhook, kube_config, "team-a"):
        on_bed(kube_config, "team-a", body).assert_held(ALL, cpu="4", memory="16Gi")
