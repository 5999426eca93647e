"""Creates the AggregatorConfig that comes with the installation.

helm cannot create it: helm refuses objects of a kind whose definition it is about to install, and
its hooks do not wait until the API server serves that kind.
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

# The CRD can appear after the operator starts, and a refusal of the API server can be fixed.
RETRY: Final = 3.0
# Applying an unchanged object changes nothing.
REPEAT: Final = 60.0


class DefaultAggregator:
    """Keeps one AggregatorConfig; only the leader runs it.

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
        """Apply the AggregatorConfig again and again until cancelled, also after errors."""
        said = ""
        while True:
            message, pause = "AggregatorConfig applied", REPEAT
            try:
                await self._apply()
            except Conflict as error:
                # Another client has changed the applied fields: they belong to it, also after an
                # upgrade.
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
