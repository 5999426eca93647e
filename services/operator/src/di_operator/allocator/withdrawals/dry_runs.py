"""Jobs whose pods the API server would create, by dry runs. Pure.

It is in memory alone: another leader asks again about the jobs that wait.
"""

from __future__ import annotations

from collections.abc import Mapping


class DryRuns:
    """The jobs whose dry runs have passed, each with the generation of its spec."""

    def __init__(self) -> None:
        self._passed: dict[str, object] = {}

    def put(self, uid: str, generation: object) -> None:
        """Record that the pods of that generation would be created."""
        self._passed[uid] = generation

    def forget(self, uid: str) -> None:
        """Record that a job is gone, or that its pods were refused since."""
        self._passed.pop(uid, None)

    def have_passed(self, uid: str, generation: object) -> bool:
        """Return whether the pods of that generation would be created."""
        return uid in self._passed and self._passed[uid] == generation

    def items(self) -> Mapping[str, object]:
        """Return the generations that have passed, by UID of the job."""
        return dict(self._passed)
