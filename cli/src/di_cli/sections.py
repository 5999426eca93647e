"""Groups of commands in the help of `di`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

SECTIONS: Final[Mapping[str, Sequence[str]]] = {
    "Start jobs": ("submit", "run", "simulate", "convert"),
    "See jobs": ("list", "get", "describe", "why", "watch", "logs", "events", "history", "top"),
    "Change jobs": ("scale", "set", "push", "restart", "rollback", "suspend", "resume", "delete"),
    "Wait, and work inside pods": ("wait", "exec", "attach", "cp", "port-forward"),
    "See the cluster": ("queue", "allocation", "dashboard", "doctor", "bundle"),
    "This command": ("login", "version"),
}
"""Names of all commands by the title of their group, both in the order of the help."""
