"""What a cluster shows of itself when a test fails."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

from di_cluster.cluster import Cluster
from di_cluster.commands import run
from di_cluster.errors import ClusterError
from di_cluster.workfolder import lock_file
from tests.failures.sources import SOURCES, Question, Source

_SECONDS: Final = 10
_ALL: Final = ("get", "--all-namespaces", "--output=wide")
_QUESTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "dijobs.yaml": ("get", "dijobs", "--output=yaml"),
    "dijobtasks.yaml": ("get", "dijobtasks", "--output=yaml"),
    "pods.yaml": ("get", "pods", "--output=yaml"),
    "leases.yaml": ("get", "leases", "--output=yaml"),
    "pods.txt": (*_ALL, "pods"),
    "nodes.txt": (*_ALL, "nodes"),
    "events.txt": (*_ALL, "events", "--sort-by=.metadata.creationTimestamp"),
}
"""Arguments of kubectl by the name of the file. Whole objects are those of the test's namespace, if
it has one."""


@contextmanager
def running(cluster: Cluster) -> Iterator[Cluster]:
    """Bring a cluster up and show it to tests that fail; nothing of it is left afterwards.

    Clusters of tests that were killed are ended first: there are ten blocks of addresses.

    Raises:
        ClusterError: it does not come up.
    """
    owners = cluster.logs.parents[1] / ".owners"
    end_abandoned(owners, lambda name: Cluster(name).down(purge=True))
    with owned(owners, cluster.name):
        yield from _running(cluster)


def _running(cluster: Cluster) -> Iterator[Cluster]:
    try:
        # Within: `down` removes the logs.
        with SOURCES.shown(
            Source(
                name=cluster.name,
                logs=lambda: _logs(cluster),
                questions=objects(lambda: cluster.binary("kubectl"), lambda: cluster.kubeconfig),
            )
        ):
            cluster.up()
            yield cluster
    finally:
        cluster.down(purge=True)


@contextmanager
def owned(owners: Path, name: str) -> Iterator[None]:
    """Hold the lock that says that this process uses a cluster; it ends with the process."""
    owners.mkdir(parents=True, exist_ok=True)
    path = owners / name
    with lock_file(path, seconds=_SECONDS):
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def end_abandoned(owners: Path, end: Callable[[str], None]) -> None:
    """End the clusters whose owner has died without ending them."""
    for path in sorted(owners.glob("*")):
        with contextlib.ExitStack() as lock:
            try:
                lock.enter_context(lock_file(path, seconds=0))
            except ClusterError:
                continue
            end(path.name)
            path.unlink(missing_ok=True)


def _logs(cluster: Cluster) -> Mapping[str, Path]:
    found = {path.name: path for path in sorted(cluster.logs.glob("*.log"))}
    # Folders are called after namespace, pod and uid, then container.
    pods = {f"pods/{'-'.join(path.parts[-3:])}": path for path in cluster.pod_logs()}
    return {**found, **pods}


def shown_elsewhere(
    kubectl: Callable[[], Path], kubeconfig: Path, *, services: str
) -> AbstractContextManager[None]:
    """Show a cluster whose files are not on this machine, with the logs of the services' pods.

    Args:
        kubectl: returns the program.
        kubeconfig: the access to the cluster.
        services: their namespace.
    """
    words = ("logs", "--prefix", "--tail=1000", "--all-containers", "--max-log-requests=20")
    selector = "--selector=app.kubernetes.io/component"
    questions = dict(objects(kubectl, lambda: kubeconfig))
    questions["services.log"] = lambda _: _ask(
        kubectl(), kubeconfig, *words, selector, f"--namespace={services}"
    )
    return SOURCES.shown(Source(name="current-cluster", questions=questions))


def objects(kubectl: Callable[[], Path], kubeconfig: Callable[[], Path]) -> Mapping[str, Question]:
    """What the API server is asked for."""

    def question(words: tuple[str, ...]) -> Question:
        def ask(namespace: str) -> str:
            if _ALL[1] in words:
                where: tuple[str, ...] = ()
            else:
                where = (f"--namespace={namespace}",) if namespace else (_ALL[1],)
            return _ask(kubectl(), kubeconfig(), *words, *where)

        return ask

    return {name: question(words) for name, words in _QUESTIONS.items()}


def _ask(kubectl: Path, kubeconfig: Path, *words: str) -> str:
    timeout = f"--request-timeout={_SECONDS // 2}s"
    return run([kubectl, "--kubeconfig", kubeconfig, timeout, *words], seconds=_SECONDS)
