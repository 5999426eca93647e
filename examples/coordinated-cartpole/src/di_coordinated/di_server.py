"""Asking di-server for collectors: the REST interface for jobs with a coordinator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
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
        token_file: file with the pod's token for di-server; None where tokens are not used.
    """

    def __init__(
        self,
        *,
        url: str,
        namespace: str,
        coordinator: str,
        resources: Mapping[str, str],
        token_file: str | None,
    ) -> None:
        self._url = f"{url.rstrip('/')}/v1alpha1/replicas"
        self._me = {"namespace": namespace, "coordinator": coordinator}
        self._resources = resources
        self._token_file = token_file

    def collectors(self) -> list[str]:
        """`<pod>.<namespace>:<port>` of every collector, also of those still starting."""
        return self._call("GET", f"{self._url}?{urlencode(self._me)}")

    def add(self, count: int) -> list[str]:
        """Ask for more collectors; returns the addresses they will have."""
        wanted = {"replicas": count, **self._resources}
        return self._call("POST", self._url, {**self._me, "collectors": wanted})

    def drop(self, count: int) -> list[str]:
        """Give collectors back; returns the addresses of those that go."""
        body = {**self._me, "collectors": {"replicas": count}}
        return self._call("DELETE", self._url, body)

    def replace(self, pods: Sequence[str]) -> list[str]:
        """Report collectors as failed, by pod; returns the addresses of their successors."""
        body = {**self._me, "collectors": list(pods)}
        return self._call("POST", f"{self._url}/failed", body)

    def _call(self, method: str, url: str, body: Mapping[str, Any] | None = None) -> list[str]:
        headers = {}
        if self._token_file:
            # Read each time: the kubelet renews the token while the pod runs.
            headers["Authorization"] = f"Bearer {Path(self._token_file).read_text()}"
        return list(call(method, url, body, headers=headers)["data"]["collectors"])
