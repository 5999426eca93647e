"""`restartedAt`: what somebody asked to begin anew, and which of it has been heeded.

Each is a text that says nothing but that it is another one than before. The status has those that
were heeded, written with the attempts that outdate the pods, so that each is heeded once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from di_api.field_error import mapping
from di_api.spec import JobSpec
from di_api.spec.bounds import MAX_RESTARTED_AT


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartRequests:
    """Texts of the job and of its tasks; those that are empty are not there."""

    job: str = ""
    tasks: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, raw: object) -> RestartRequests:
        """Read `status.restartedAt`, of any shape."""
        fields = mapping(raw)
        tasks = mapping(fields.get("tasks"))
        return cls(
            job=_text(fields.get("job")),
            tasks={str(task): text for task, value in tasks.items() if (text := _text(value))},
        )

    @classmethod
    def of(cls, spec: JobSpec | None) -> RestartRequests:
        """Those of a spec; none while nobody can read it."""
        if spec is None:
            return cls()
        return cls(
            job=spec.restarted_at or "",
            tasks={task.name: task.restarted_at for task in spec.tasks if task.restarted_at},
        )

    def news(self, heeded: RestartRequests, tasks: Iterable[str]) -> frozenset[str]:
        """Which of a job's tasks are to begin anew, by what has been heeded."""
        if self.job and self.job != heeded.job:
            return frozenset(tasks)
        return frozenset(
            task for task, text in self.tasks.items() if text != heeded.tasks.get(task)
        )

    def heeded_in(self, done: frozenset[str], tasks: Iterable[str]) -> RestartRequests:
        """Those that are met once these of a job's tasks begin anew."""
        return RestartRequests(
            job=self.job if done.issuperset(tasks) else "",
            tasks={task: text for task, text in self.tasks.items() if task in done},
        )

    def updated(self, others: RestartRequests) -> RestartRequests:
        """These, and the others in place of what was there before them."""
        return RestartRequests(job=others.job or self.job, tasks={**self.tasks, **others.tasks})

    def dump(self) -> dict[str, Any]:
        """The value of `status.restartedAt`, empty if there is none."""
        return {
            **({"job": self.job} if self.job else {}),
            **({"tasks": dict(self.tasks)} if self.tasks else {}),
        }


def _text(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= MAX_RESTARTED_AT else ""
