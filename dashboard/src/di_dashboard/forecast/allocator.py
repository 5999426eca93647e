"""Forecast by the operator's allocator, applied to the cached cluster."""

from __future__ import annotations

from typing import Final

from di_cli.errors import CommandError
from di_cli.forecasting import expected_starts, is_installed, read_allocator
from di_cli.present import Present
from di_cli.session import Session
from di_cli.views.ends import End
from di_cli.views.queue import is_waiting
from di_dashboard.cluster_cache.cache import ClusterCache
from di_dashboard.forecast.outlook import Outlook

_NODES: Final = "nodes"


def outlook(cluster_cache: ClusterCache, session: Session) -> Outlook:
    """Compute a forecast; takes a second or two if many jobs wait and many end."""
    jobs = [dict(entry.job) for entry in cluster_cache.entries()]
    present = Present(
        nodes=[dict(each) for each in cluster_cache.nodes()],
        jobs=jobs,
        pods=[dict(each) for each in cluster_cache.live_pods()],
    )
    notes: list[str] = []
    starts: dict[str, End | None] = {}
    try:
        allocator = read_allocator(session, None, None)
    except CommandError as error:
        return Outlook(notes=(f"{error.what}: {error.where}",))
    if any(is_waiting(job) for job in jobs):
        if not is_installed():
            notes.append("When they start cannot be told without the package di-operator.")
        elif _NODES in cluster_cache.unread:
            notes.append("When they start cannot be told: you may not list nodes.")
        else:
            starts = expected_starts(session, present, allocator)
            if not allocator.known:
                notes.append(
                    "The operator's ConfigMap cannot be read: its policy is taken to be "
                    f"{allocator.policy}."
                )
    return Outlook(
        starts=starts,
        policy=allocator.policy if allocator.known else "",
        arguments=allocator.arguments,
        notes=tuple(notes),
    )
