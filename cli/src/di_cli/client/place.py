"""The place of jobs: a namespace of a cluster, with a connection that is opened on use."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial

from di_cli.client.errors import raised
from di_cli.logs.merged import MOST_PODS
from di_cli.session import Session, open_session

CONNECTIONS = MOST_PODS + 3
"""Each followed log has one, and the watches of job and pods have another."""


class Place:
    """A namespace of a cluster, or a run on this machine. Thread-safe.

    Args:
        namespace: None: that of the context.
        context: of the kubeconfig; None: the current one, or the service account of this pod.
        connect: opens the session; absent: that of the namespace and context.
    """

    def __init__(
        self,
        namespace: str | None = None,
        context: str | None = None,
        *,
        connect: Callable[[], AbstractContextManager[Session]] | None = None,
    ) -> None:
        self._namespace, self._context = namespace, context
        of_cluster = partial(open_session, namespace, context, connections=CONNECTIONS)
        self._connect = connect or of_cluster
        self._lock = threading.Lock()
        self._opened = ExitStack()
        self._session: Session | None = None

    @property
    def namespace(self) -> str:
        """Return the name of the namespace. Raises JobsError without a kubeconfig."""
        with self.session() as session:
            return session.namespace

    @contextmanager
    def session(self, job: str | None = None) -> Iterator[Session]:
        """Yield the connection; raise what goes wrong meanwhile as JobsError.

        Args:
            job: the job that it is about.
        """
        with raised(self._namespace, self._context, job):
            yield self._connected()

    def of(self, namespace: str) -> Place:
        """Return the place of another namespace of the cluster."""
        same = namespace == self.namespace
        return self if same else Place(namespace, self._context)

    def close(self) -> None:
        """Close the connections; the next use opens them again."""
        with self._lock:
            self._session = None
            self._opened.close()

    def _connected(self) -> Session:
        with self._lock:
            if self._session is None:
                self._session = self._opened.enter_context(self._connect())
            return self._session
