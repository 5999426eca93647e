"""What was read of an installation; what could not be read says why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

Object: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the API server said when it was asked for something.

    Attributes:
        found: the objects; one, where one was asked for.
        code: HTTP status; 0 when no answer came.
        words: its own, where it refused.
    """

    found: tuple[Object, ...] = ()
    code: int = 200
    words: str = ""

    @property
    def is_good(self) -> bool:
        """Whether it is what was asked for."""
        return 200 <= self.code < 300

    @property
    def is_refused(self) -> bool:
        """Whether the user may not ask that."""
        return self.code in (401, 403)

    @property
    def is_missing(self) -> bool:
        """Whether there is no such object, or no such kind."""
        return self.code == 404


NOTHING = Answer(code=0, words="it was not asked for")


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that is looked at.

    Attributes:
        namespace: of the user's jobs.
        system: namespace of the release.
        now: by the API server's clock.
        local_now: by that of this machine, at the same moment.
        program: version of `di`.
        version: of the API server, as `/version` has it.
        rights: SelfSubjectRulesReview of `namespace`.
        definition: the CRD of DIJobs.
        mutating, validating: webhook configurations of releases.
        deployments: of releases.
        leases: of `system`.
        refusal: the answer to a job that the webhook alone would refuse, in a dry run.
        server: the answer of di-server's `/readyz`, by way of the API server.
        nodes, node_leases: of the cluster.
        quotas, jobs, pods: of `namespace`; of the pods those of jobs.
        metrics: use of the namespace's pods, by metrics.k8s.io.
        killed_runs: directories of runs on this machine that are over and were not closed.
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
        """Whether the API server says nothing to this user. Some let nobody read their version."""
        return not self.version.is_good and self.version.code != 403
