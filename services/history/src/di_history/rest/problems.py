"""Errors of requests to the history."""

from __future__ import annotations

from di_service.problems import Problem


class NotKept(Problem):
    """The history has nothing with that name."""

    status = 404
