"""The values of the demo's release on a cluster that runs already."""

from __future__ import annotations

import json

from di_cluster.commands import run
from examples.demo.__main__ import HISTORY, KEPT
from examples.demo.share import ARRANGEMENTS
from tests.chart.chart import CHART
from tests.integration.conftest import ApiServer


def test_another_demo_keeps_the_values_of_the_release(
    api_server: ApiServer, namespace: str
) -> None:
    def helm(*arguments: str) -> str:
        program = (api_server.binary("helm"), "--kubeconfig", api_server.kubeconfig)
        return run([*program, "--namespace", namespace, *arguments], seconds=120)

    def install(*arguments: str) -> None:
        # One namespace: the webhook does not run, and would fail requests in all others.
        scope = f"crds.enabled=false,watchNamespace={namespace},rbac.allowClusterRoles=true"
        own = ("--wait=hookOnly", "--set", scope, *arguments)
        helm("upgrade", "--install", namespace, str(CHART), *own)

    try:
        install(*KEPT, *HISTORY)
        # What a user changes in between.
        install(*KEPT, "--set", "operator.logLevel=debug")
        install(*KEPT, *HISTORY, *ARRANGEMENTS["whole"].values())
        install(*KEPT, *HISTORY)
        values = json.loads(helm("get", "values", namespace, "--output=json"))
        assert values["operator"]["logLevel"] == "debug"
        assert values["operator"]["allocator"]["policy"] == ARRANGEMENTS["whole"].policy
        assert values["history"]["enabled"] is True
    finally:
        helm("uninstall", namespace)
