"""The answer of one reconcile, and the operator's options that shape it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from di_api.companions import CompanionKind
from di_api.spec import JobSpec, Priority
from di_operator.builders.pinning import Binding
from di_operator.lifecycle.vocabulary.actions import (
    Action,
    Create,
    CreateCompanion,
    CreateSchedulingObject,
)
from di_operator.lifecycle.vocabulary.reasons import EventType, Problem, Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Options of the operator that reach into decisions and pod bodies.

    ``service_domain`` is the cluster's service domain (``svc.cluster.local``), ``server_url`` what
    pods get as ``DI_SERVER_URL``, ``coordinated_server_url`` what those of coordinated jobs get as
    ``KUBERNETES_SERVER_URL``. With ``token_audience`` set, every pod gets a projected
    service-account token of that audience; None leaves it out. ``server_ca`` are the authorities
    (PEM) that pods of jobs with tasks know di-server by: empty while they are not known yet, None
    where ``server_url`` needs none. From ``job_secret_key`` the secrets of jobs are derived; None
    leaves them out. ``binding`` says who binds pods that the allocator placed,
    ``high_priority_class`` names the PriorityClass of jobs with high priority, ``companion_kinds``
    are those of objects that jobs may bring along. ``notification_targets`` are the names of those
    whom jobs may have told of them, None where nobody tells anybody.
    """

    service_domain: str
    server_url: str
    coordinated_server_url: str
    token_audience: str | None = None
    server_ca: str | None = None
    job_secret_key: bytes | None = field(default=None, repr=False)
    binding: Binding = Binding.SCHEDULER
    high_priority_class: str | None = None
    companion_kinds: tuple[CompanionKind, ...] = ()
    notification_targets: frozenset[str] | None = None

    def priority_class(self, spec: JobSpec) -> str | None:
        """The class of the pods of a job, None if it is the cluster's default."""
        return self.high_priority_class if spec.priority is Priority.HIGH else None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    """One Kubernetes Event on the job; repeated ones are to be folded into a count."""

    reason: Reason | Problem
    message: str

    @property
    def type(self) -> EventType:
        """As it is declared with the reason."""
        return self.reason.event_type


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do now, in this order: actions, status, events.

    ``status`` is the whole new status as far as the operator owns it (see
    :func:`di_operator.lifecycle.observed.status.merge_patch`), None when nothing changed. It tells
    what the
    actions will have made true, so it is written only after all of them succeeded, guarded by the
    resourceVersion of the job that the snapshot was built from: after a conflict the job is
    decided again, never patched over, or a restart would be counted twice. Events follow only a
    status write that held (or, without one, the actions). ``requeue_after`` is in seconds; None
    means that the next watch event or poll is early enough. ``from_absence``: the status counts
    pods for lost that are just not seen, which a watch that lags does not see either; it is
    written only after a read has shown that they are gone. ``upkeep`` is done last, after status
    and events: what is refused of it keeps nothing else from happening.
    """

    actions: tuple[Action, ...] = ()
    status: dict[str, Any] | None = None
    events: tuple[JobEvent, ...] = ()
    requeue_after: float | None = None
    from_absence: bool = False
    upkeep: tuple[Action, ...] = ()

    @property
    def creates(self) -> bool:
        """Whether the job gets objects."""
        kinds = Create | CreateCompanion | CreateSchedulingObject
        return any(isinstance(action, kinds) for action in self.actions)
