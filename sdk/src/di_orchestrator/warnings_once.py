"""Warnings that are said once for each kind, however often it happens."""

from __future__ import annotations

import logging

log = logging.getLogger("di_orchestrator")

KINDS = 16
"""Kinds that are told at most: di-server's words may differ each time."""


class Warnings:
    """Those of one part of the package; for one thread."""

    def __init__(self) -> None:
        self._said = set[str]()

    def say(self, text: str, *, kind: str | None = None) -> None:
        """Log it, unless one of its kind (by default one of these words) was logged before."""
        key = text if kind is None else kind
        if key not in self._said and len(self._said) < KINDS:
            self._said.add(key)
            log.warning("%s (said once)", text)
