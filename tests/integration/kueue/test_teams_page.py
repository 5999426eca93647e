"""The manifests of docs/teams.md, applied as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from di_api.kube.config import KubeConfig
from tests.integration.admitting import admitting
from tests.integration.conftest import named_namespace
from tests.integration.kueue.bed import ALL, Bed, on_bed
from tests.integration.kueue.installation import forget_workloads, installed
from tests.integration.kueue.kinds import Object
from tests.integration.webhook_process import WebhookProcess

PAGE = Path(__file__).resolve().parents[3] / "docs/teams.md"
_BLOCK = re.compile(
    rf"<!-- applied by \S+/{Path(__file__).name} -->\n```yaml\n(.*?)^```$", re.M | re.S
)


def manifests() -> list[Object]:
    return [
        body for block in _BLOCK.findall(PAGE.read_text()) for body in yaml.safe_load_all(block)
    ]


def test_the_job_of_the_page_runs_with_the_quota_of_the_page(
    kube_config: KubeConfig, webhook: WebhookProcess
) -> None:
    *queues, job = manifests()

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
