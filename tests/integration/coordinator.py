"""A coordinator as DI-engine's is: it posts, lists and reports over one connection."""

from __future__ import annotations

import json
from types import TracebackType
from typing import Any, Self

import requests

from di_api.coordinated import coordinator_name
from tests.integration.di_server import Object, ServerProcess
from tests.waiting import ANSWER_SECONDS


class Coordinator:
    """Each method gives the answer's data; any refusal raises, as it ends DI-engine's thread."""

    def __init__(self, server: ServerProcess, job: Object, pod: str | None = None) -> None:
        """`pod`: an aggregator, in place of the job's coordinator."""
        self._url = f"http://127.0.0.1:{server.ports[0]}/v1alpha1/replicas"
        self._namespace = job["metadata"]["namespace"]
        self._pod = pod or coordinator_name(job["metadata"]["name"])
        self._http = requests.Session()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.close()

    def replicas(self) -> Object:
        """GET, with the body that clients send along."""
        query = {"namespace": self._namespace, "coordinator": self._pod}
        return self._data("GET", self._url, {}, query)

    def post(self, collectors: int = 0, learners: int = 0, **each: Any) -> Object:
        """Ask for more, with resources `each`."""
        return self._send("POST", self._url, self._counts(collectors, learners, each))

    def delete(self, collectors: int = 0, learners: int = 0) -> Object:
        """Give some back."""
        return self._send("DELETE", self._url, self._counts(collectors, learners, {}))

    def report(self, *urls: str) -> Object:
        """Say that the replicas at these addresses failed."""
        pods = [".".join(url.split(":")[0].split(".")[:-1]) for url in urls]
        return self._send("POST", f"{self._url}/failed", {"collectors": pods, "learners": []})

    @staticmethod
    def _counts(collectors: int, learners: int, each: Object) -> Object:
        return {
            "collectors": {"replicas": collectors, **each},
            "learners": {"replicas": learners, **each},
        }

    def _send(self, method: str, url: str, body: Object) -> Object:
        named = {"namespace": self._namespace, "coordinator": self._pod}
        return self._data(method, url, {**body, **named}, {})

    def _data(self, method: str, url: str, body: Object, query: Object) -> Object:
        answer = self._http.request(
            method, url, data=json.dumps(body), params=query, timeout=ANSWER_SECONDS
        )
        answer.raise_for_status()
        data: Object = answer.json()["data"]
        return data
