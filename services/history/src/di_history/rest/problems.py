"""Why a request is refused that asks for what is kept."""

from __future__ import annotations

from di_service.problems import Problem


class NotKept(Problem):
    """Nothing is kept under that name."""

    status = 404
