"""Whether a collector is still starting, well, or lost."""

from __future__ import annotations

STARTING_SECONDS = 90.0
"""How long a new collector may take until its first answer; its pod may wait for a node."""
SILENT_SECONDS = 5.0
"""How long one that has answered before may be silent."""


class Health:
    """What is known of one collector; times are seconds of one clock."""

    def __init__(self, now: float) -> None:
        self.is_well = False
        self._silent_since = now
        self._patience = STARTING_SECONDS

    def answered(self) -> None:
        """It gave an answer: give it work."""
        self.is_well = True
        self._patience = SILENT_SECONDS

    def missed(self, now: float) -> bool:
        """It gave none; True when patience has ended and it is to be replaced."""
        if self.is_well:
            self.is_well = False
            self._silent_since = now
        return now - self._silent_since >= self._patience
