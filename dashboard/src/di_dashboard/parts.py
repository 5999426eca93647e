"""What all pages have: the cluster in memory, the API server, and who is told of changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from flask import current_app

from di_api.explain import Explanation, Facts, explain
from di_api.field_error import mapping
from di_api.kube.sync import SyncKubeClient
from di_dashboard.feed import Feed
from di_dashboard.gate import Gate
from di_dashboard.history import History, Object
from di_dashboard.kept import Kept
from di_dashboard.last_words import LastWords
from di_dashboard.outlook import Outlooks
from di_dashboard.stories import Stories
from di_dashboard.world import World

EXTENSION: Final = "di-dashboard"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """All of it.

    Attributes:
        kept: what di-history remembers of jobs, and stories are made of.
        outlooks: when jobs that wait are expected to start.
        client: as the user who looks.
        log_client: likewise; logs hold their connections for as long as somebody reads.
        now: by the API server's clock.
        place: which cluster, in words.
        namespace: the only one that is looked at; None means all.
        read_only: whether nothing may be changed from here.
    """

    world: World
    feed: Feed
    history: History
    kept: Kept
    stories: Stories
    outlooks: Outlooks
    client: SyncKubeClient
    log_client: SyncKubeClient
    last_words: LastWords
    gate: Gate
    now: Callable[[], datetime]
    place: str
    namespace: str | None
    read_only: bool

    def explain(self, job: Object) -> Explanation:
        """Why the job is as it is."""
        metadata = mapping(job.get("metadata"))
        namespace, name = str(metadata.get("namespace") or ""), str(metadata.get("name") or "")
        pods = self.world.pods_of(namespace, name)
        facts = Facts(
            name=name,
            namespace=namespace,
            now=self.now(),
            job=job,
            pods=pods,
            events=self.world.events_of(namespace, name),
            nodes=self.world.nodes(),
            logs=self.last_words.of(pods),
        )
        return explain(facts)


def parts() -> Parts:
    """Those of the application that answers."""
    found: Parts = current_app.extensions[EXTENSION]
    return found
