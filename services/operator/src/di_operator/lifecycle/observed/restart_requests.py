"""The restarts that users requested by `restartedAt` or a change of `code`, and those that have
been handled.

Each is an opaque text; only a change of it counts. The status has the handled ones, written
together with the attempts that outdate the pods, so each request is handled once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from di_api.field_error import mapping
from di_api.spec import JobSpec
from di_api.spec.bounds import MAX_CODE, MAX_RESTARTED_AT


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartRequests:
    """The texts of the job, of its code and of its tasks; empty ones are left out."""

    job: str = ""
    code: str = ""
    tasks: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, raw: object) -> RestartRequests:
        """Read `status.restartedAt`, of any shape."""
        fields = mapping(raw)
        tasks = mapping(fields.get("tasks"))
        return cls(
            job=_text(fields.get("job")),
            code=_text(fields.get("code"), MAX_CODE),
            tasks={str(task): text for task, value in tasks.items() if (text := _text(value))},
        )

    @classmethod
    def of(cls, spec: JobSpec | None) -> RestartRequests:
        """Return the requests in a spec; none if the spec cannot be read."""
        if spec is None:
            return cls()
        return cls(
            job=spec.restarted_at or "",
            code=spec.code.identity if spec.code is not None else "",
            tasks={task.name: task.restarted_at for task in spec.tasks if task.restarted_at},
        )

    def news(self, handled: RestartRequests, tasks: Iterable[str]) -> frozenset[str]:
        """Return the tasks of a job that have to restart, given the handled requests."""
        if (self.job and self.job != handled.job) or self.has_other_code(handled):
            return frozenset(tasks)
        return frozenset(
            task for task, text in self.tasks.items() if text != handled.tasks.get(task)
        )

    def has_other_code(self, handled: RestartRequests) -> bool:
        """Return whether the code differs from the one of the handled requests."""
        return bool(self.code) and self.code != handled.code

    def handled_in(self, done: frozenset[str], tasks: Iterable[str]) -> RestartRequests:
        """Return the requests that are handled once these tasks of the job restart."""
        is_whole = done.issuperset(tasks)
        return RestartRequests(
            job=self.job if is_whole else "",
            code=self.code if is_whole else "",
            tasks={task: text for task, text in self.tasks.items() if task in done},
        )

    def updated(self, others: RestartRequests) -> RestartRequests:
        """Return these requests, with the others replacing older ones of the same job or task."""
        return RestartRequests(
            job=others.job or self.job,
            code=others.code or self.code,
            tasks={**self.tasks, **others.tasks},
        )

    def dump(self) -> dict[str, Any]:
        """Return the value of `status.restartedAt`, empty without requests."""
        return {
            **({"job": self.job} if self.job else {}),
            **({"code": self.code} if self.code else {}),
            **({"tasks": dict(self.tasks)} if self.tasks else {}),
        }


def _text(value: object, longest: int = MAX_RESTARTED_AT) -> str:
    return value if isinstance(value, str) and len(value) <= longest else ""
