"""The logs of a job that a command is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.logs.sources import Source, containers_of, sources_of
from di_cli.session import Session
from di_cli.views.pods import in_order, rank_of, task_of


class NoPods(CommandError):
    """The job has no pods of that task and rank now."""


def is_meant(pod: Mapping[str, Any], task: str | None, rank: int | None) -> bool:
    """Return whether a pod has the task and the rank; None means any."""
    return (task is None or task_of(pod) == task) and (rank is None or rank_of(pod) == rank)


def sources_there(
    session: Session,
    name: str,
    *,
    task: str | None,
    rank: int | None,
    container: str,
    all_containers: bool = False,
) -> list[Source]:
    """Return the logs of a job's pods, in the order of tasks and ranks.

    Raises:
        CommandError: there is no such job, pod or container.
    """
    pods = in_order(pod for pod in session.pods(name) if is_meant(pod, task, rank))
    if not pods:
        session.job(name)
        raise _no_pods(name, task, rank)
    found = sources_of(pods, container=container, all_containers=all_containers)
    if not found:
        raise _no_container(name, container, pods)
    return found


def _no_pods(name: str, task: str | None, rank: int | None) -> NoPods:
    which = "".join(
        f" {word} {value}" for word, value in (("task", task), ("rank", rank)) if value is not None
    )
    return NoPods(
        f"dijob/{name} has no pods{' of' if which else ''}{which}",
        remedy=f"di describe {name}",
        code=ExitCode.NOT_FOUND,
    )


def _no_container(name: str, container: str, pods: Iterable[Mapping[str, Any]]) -> CommandError:
    there = dict.fromkeys(each for pod in pods for each in containers_of(pod))
    return CommandError(
        f"no pod of dijob/{name} that is meant has a container {container}",
        where=f"containers there: {', '.join(there)}",
        remedy=f"di logs {name} --all-containers",
        code=ExitCode.NOT_FOUND,
    )
