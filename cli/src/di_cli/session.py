"""What every command has: the API server, a namespace, and the time by the API server's clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import Any

from di_api.kube.config import ConfigError
from di_api.kube.errors import ApiError
from di_api.kube.resources import DIJOBS, EVENTS, NODES, PODS
from di_api.kube.server_time import ServerTime
from di_api.kube.sync import SyncKubeClient
from di_api.names import LABEL_JOB
from di_cli.access.kubeconfig import Access, read_access
from di_cli.errors import CommandError, from_api
from di_cli.exit_codes import ExitCode

Object = dict[str, Any]
TIMEOUT = 20.0
"""Seconds that a request may take."""


@dataclass(slots=True)
class Session:
    """One command's use of the API server.

    Attributes:
        client: to it, as the user.
        access: where it is.
        namespace: that is asked about.
        time: of the API server.
    """

    client: SyncKubeClient
    access: Access
    namespace: str
    time: ServerTime

    def now(self) -> datetime:
        """By the API server's clock: ages are right on any machine."""
        return self.time.now()

    def job(self, name: str) -> Object:
        """A job of the namespace."""
        return self.client.get(DIJOBS, name, self.namespace)

    def jobs(self, *, all_namespaces: bool = False, selector: str | None = None) -> list[Object]:
        """The jobs of the namespace, or of all."""
        namespace = None if all_namespaces else self.namespace
        return self.client.list(DIJOBS, namespace, label_selector=selector)[0]

    def pods(self, job: str) -> list[Object]:
        """The pods of a job."""
        return self.client.list(PODS, self.namespace, label_selector=f"{LABEL_JOB}={job}")[0]

    def events(self, job: str) -> list[Object]:
        """The events of a job and its pods, also of those that are gone."""
        found, _ = self.client.list(EVENTS, self.namespace)
        return [event for event in found if _is_about(event.get("involvedObject") or {}, job)]

    def nodes(self) -> list[Object]:
        """Those of the cluster; none where the user may not read them."""
        try:
            return self.client.list(NODES)[0]
        except ApiError:
            return []


@contextmanager
def open_session(
    namespace: str | None = None, context: str | None = None, *, connections: int = 2
) -> Iterator[Session]:
    """Open one. What the API server refuses comes out as a CommandError."""
    try:
        access = read_access(context)
        time = ServerTime(wall=lambda: datetime.now(UTC), monotonic=monotonic)
        with SyncKubeClient(
            config=access.config,
            timeout=TIMEOUT,
            connections=connections,
            on_date=time.observe,
        ) as client:
            yield Session(client, access, namespace or access.namespace, time)
    except ConfigError as error:
        raise CommandError(
            "the kubeconfig cannot be used",
            where=str(error),
            remedy="kubectl config get-contexts; --context chooses another one",
            code=ExitCode.NOT_FOUND,
        ) from error
    except ApiError as error:
        raise from_api(error) from error


def _is_about(involved: Object, job: str) -> bool:
    """Whether an event is about the job or a pod of it; those of pods that are gone have no label
    any more, and their names begin with the job's."""
    name, kind = str(involved.get("name") or ""), involved.get("kind")
    return (kind == "DIJob" and name == job) or (kind == "Pod" and name.startswith(f"{job}-"))
