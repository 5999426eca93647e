"""Data that was read of an installation; unreadable data has the reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

Object: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A response of the API server.

    Attributes:
        found: the objects; one, if one was requested.
        code: HTTP status; 0 without a response.
        words: message of a refusal.
    """

    found: tuple[Object, ...] = ()
    code: int = 200
    words: str = ""

    @property
    def is_good(self) -> bool:
        """Return whether it succeeded."""
        return 200 <= self.code < 300

    @property
    def is_refused(self) -> bool:
        """Return whether the user has no permission."""
        return self.code in (401, 403)

    @property
    def is_missing(self) -> bool:
        """Return whether there is no such object, or no such kind."""
        return self.code == 404


NOTHING = Answer(code=0, words="it was not asked for")


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The input of all checks.

    Attributes:
        namespace: of the user's jobs.
        system: namespace of the release.
        now: by the API server's clock.
        local_now: by that of this machine, at the same moment.
        program: version of `di`.
        version: of the API server, from `/version`.
        rights: SelfSubjectRulesReview of `namespace`.
        definition: the CRD of DIJobs.
        mutating, validating: webhook configurations of releases.
        deployments: of releases.
        leases: of `system`.
        refusal: the response to a dry run of a job that only the webhook refuses.
        server: the response of di-server's `/readyz`, through the API server.
        nodes, node_leases: of the cluster.
        quotas, jobs, pods: of `namespace`; only pods of jobs.
        metrics: use of the namespace's pods, from metrics.k8s.io.
        killed_runs: directories of ended local runs that were not closed.
    """

    namespace: str
    system: str
    now: datetime
    local_now: datetime
    program: str = ""
    version: Answer = NOTHING
    rights: Answer = NOTHING
    definition: Answer = NOTHING
    mutating: Answer = NOTHING
    validating: Answer = NOTHING
    deployments: Answer = NOTHING
    leases: Answer = NOTHING
    refusal: Answer = NOTHING
    server: Answer = NOTHING
    nodes: Answer = NOTHING
    node_leases: Answer = NOTHING
    quotas: Answer = NOTHING
    jobs: Answer = NOTHING
    pods: Answer = NOTHING
    metrics: Answer = NOTHING
    killed_runs: tuple[str, ...] = ()

    @property
    def is_unreachable(self) -> bool:
        """Return whether the API server gives this user no response. Some servers forbid reading
        the version.
        """
        return not self.version.is_good and self.version.code != 403
