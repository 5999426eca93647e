"""Paths inside a container, and their places on this machine.

For a process nothing is mounted. It finds its volumes through paths in its environment, its command
or its arguments, in which a path below a mount is replaced.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from di_local.pods.volumes import inside


class Mounts:
    """The mounts of one container.

    Raises:
        Missing: a `subPath` leads out of its volume.
    """

    def __init__(self, mounts: Sequence[Mapping[str, Any]], volumes: Mapping[str, Path]) -> None:
        self.places: Mapping[str, Path] = {
            str(mount["mountPath"]).rstrip("/"): inside(
                volumes[mount["name"]], mount.get("subPath") or ""
            )
            for mount in mounts
            if mount.get("name") in volumes and str(mount["mountPath"]).strip("/")
        }
        """Places by the path inside the container."""
        longest_first = sorted(self.places, key=len, reverse=True)
        alternatives = "|".join(re.escape(path) for path in longest_first)
        self._pattern = re.compile(rf"(?<![\w./-])(?:{alternatives})(?![\w.-])")

    def replaced(self, text: str) -> str:
        """Return the text with paths of this machine in place of those of the container."""
        if not self.places:
            return text
        return self._pattern.sub(lambda found: str(self.places[found[0]]), text)
