"""Asking di-server for collectors: the REST interface for jobs with a coordinator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from di_coordinated.client import call


class DIServer:
    """di-server as one coordinator sees it. All methods raise Unreachable.

    Args:
        url: where it answers.
        namespace: of the coordinator's pod.
        coordinator: name of that pod.
        resources: what a collector gets, such as {"cpus": "200m"}.
    """

    def __init__(
        self, *, url: str, namespace: str, coordinator: str, resources: dict[str, str]
    ) -> None:
        self._url = f"{url.rstrip('/')}/v1alpha1/replicas"
        self._me = {"namespace": namespace, "coordinator": coordinator}
        self._resources = resources

    def collectors(self) -> list[str]:
        """`<pod>.<namespace>:<port>` of every collector, also of those still starting."""
        return self._names(call("GET", f"{self._url}?{urlencode(self._me)}"))

    def add(self, count: int) -> list[str]:
        """Ask for more collectors; returns the addresses they will have."""
        wanted = {"replicas": count, **self._resources}
        return self._names(call("POST", self._url, {**self._me, "collectors": wanted}))

    def drop(self, count: int) -> list[str]:
        """Give collectors back; returns the addresses of those that go."""
        body = {**self._me, "collectors": {"replicas": count}}
        return self._names(call("DELETE", self._url, body))

    def replace(self, pods: Sequence[str]) -> list[str]:
        """Report collectors as failed, by pod; returns the addresses of their successors."""
        body = {**self._me, "collectors": list(pods)}
        return self._names(call("POST", f"{self._url}/failed", body))

    @staticmethod
    def _names(answer: dict[str, Any]) -> list[str]:
        return list(answer["data"]["collectors"])
