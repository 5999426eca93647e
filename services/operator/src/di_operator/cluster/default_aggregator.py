"""Makes the AggregatorConfig that comes with the installation.

helm cannot: it refuses objects of a kind whose definition it is about to install, and no hook of
its waits until the API server serves that kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import structlog

from di_api import names
from di_kube.client import KubeClient
from di_kube.errors import ApiError, Conflict
from di_kube.resources import AGGREGATOR_CONFIGS
from di_kube.wire import APPLY_PATCH
from di_operator.process.clock import Clock

log = structlog.get_logger(__name__)

# The definition may come a moment after the operator; an API server that refuses may be mended.
RETRY: Final = 3.0
# Applying what is there already changes nothing.
REPEAT: Final = 60.0


class DefaultAggregator:
    """Keeps one AggregatorConfig; run by the leader only.

    Needs: aggregatorconfigs create, and patch by name.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        namespace: str,
        name: str,
        template: Mapping[str, Any],
        clock: Clock,
    ) -> None:
        """`template` is a core/v1 PodTemplateSpec."""
        self._client = client
        self._namespace = namespace
        self._name = name
        self._template = template
        self._clock = clock

    async def run(self) -> None:
        """Keep it until cancelled; errors of the API server are outlived."""
        said = ""
        while True:
            message, pause = "AggregatorConfig applied", REPEAT
            try:
                await self._apply()
            except Conflict as error:
                # Somebody has changed what is applied here: it is theirs, after an upgrade too.
                message = f"AggregatorConfig left as it is: {error.message}"
            except ApiError as error:
                message, pause = f"AggregatorConfig not applied: {error}", RETRY
            if message != said:
                log.info(message, name=self._name)
            said = message
            await self._clock.sleep(pause)

    async def _apply(self) -> None:
        await self._client.patch(
            AGGREGATOR_CONFIGS,
            self._name,
            {
                "apiVersion": AGGREGATOR_CONFIGS.api_version,
                "kind": AGGREGATOR_CONFIGS.kind,
                "metadata": {"name": self._name},
                "spec": {"aggregator": {"template": self._template}},
            },
            self._namespace,
            content_type=APPLY_PATCH,
            field_manager=names.OPERATOR_NAME,
        )
