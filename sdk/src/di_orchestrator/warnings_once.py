"""Warnings that are logged once per kind."""

from __future__ import annotations

import logging

log = logging.getLogger("di_orchestrator")

KINDS = 16
"""Maximum number of kinds, because di-server's messages can differ each time."""


class Warnings:
    """The warnings of one part of the package; for one thread."""

    def __init__(self) -> None:
        self._said = set[str]()

    def say(self, text: str, *, kind: str | None = None) -> None:
        """Log a warning, unless one of its kind (by default the same text) was logged before."""
        key = text if kind is None else kind
        if key not in self._said and len(self._said) < KINDS:
            self._said.add(key)
            log.warning("%s (said once)", text)
