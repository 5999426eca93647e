"""The result of one reconcile, and the operator's options that affect it."""

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
    """The options of the operator that affect decisions and pod bodies.

    ``service_domain`` is the cluster's service domain (``svc.cluster.local``). ``server_url`` is
    the value of ``DI_SERVER_URL`` in pods, ``coordinated_server_url`` that of
    ``KUBERNETES_SERVER_URL`` in coordinated jobs. With ``token_audience``, every pod gets a
    projected service-account token of that audience; None leaves it out.

    ``server_ca`` has the certificate authorities (PEM) that pods of jobs with tasks trust for
    di-server: empty until they are known, None if ``server_url`` needs none. The secrets of jobs
    are derived from ``job_secret_key``; None leaves them out. ``binding`` names the component that
    binds the pods placed by the allocator. ``high_priority_class`` is the PriorityClass of jobs
    with high priority. ``companion_kinds`` are the object kinds that jobs may have as companions.
    ``notification_targets`` are the names of the targets that jobs may notify, None if
    notifications are off. With ``suspend_idle_jobs`` and ``scale_down_idle_jobs`` the operator may
    suspend jobs, and scale them down, by their idlePolicy.
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
    suspend_idle_jobs: bool = False
    scale_down_idle_jobs: bool = False

    def priority_class(self, spec: JobSpec) -> str | None:
        """Return the PriorityClass of the pods of a job, None for the cluster's default."""
        return self.high_priority_class if spec.priority is Priority.HIGH else None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent:
    """One Kubernetes Event on the job; repeated events are folded into one with a count."""

    reason: Reason | Problem
    message: str

    @property
    def type(self) -> EventType:
        """The event type that is declared with the reason."""
        return self.reason.event_type


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The actions, the status and the events of one reconcile, to be written in this order.

    ``status`` is the whole new status as far as the operator owns it (see
    :func:`di_operator.lifecycle.observed.status.with_owned`), None if it is unchanged. It
    describes the state after the actions, so it is written only after all of them have succeeded.
    The write is guarded by the resourceVersion of the job that the snapshot was built from. After
    a conflict the job is decided again: a patch over the newer status could count a restart twice.

    Events follow a successful status write or, without one, the actions. ``requeue_after`` is in
    seconds; None means that the next watch event or poll is early enough. With ``from_absence``
    the status counts pods as lost because they were not found. A lagging watch does not find them
    either, so a read from the API server has to confirm it before the status is written.
    ``late_actions`` comes last, after status and events: a refused write of it stops nothing else.
    ``is_last`` marks that the next decision would find nothing to do before ``requeue_after``, if
    all writes succeed: it is made when something changes.
    """

    actions: tuple[Action, ...] = ()
    status: dict[str, Any] | None = None
    events: tuple[JobEvent, ...] = ()
    requeue_after: float | None = None
    from_absence: bool = False
    late_actions: tuple[Action, ...] = ()
    is_last: bool = False

    @property
    def creates(self) -> bool:
        """Return whether any of the actions creates an object."""
        kinds = Create | CreateCompanion | CreateSchedulingObject
        return any(isinstance(action, kinds) for action in self.actions)
