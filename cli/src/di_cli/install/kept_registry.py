"""The registry of each cluster, kept so that it is asked for once."""

from __future__ import annotations

import json
import os
from pathlib import Path

from di_cli.errors import CommandError


def kept_registry(cluster: str) -> str | None:
    """Return the registry that was given for a cluster, by the URL of its API server."""
    found = _read().get(cluster)
    return found if isinstance(found, str) and found else None


def keep_registry(cluster: str, registry: str) -> None:
    """Store the registry of a cluster. Raises CommandError."""
    kept = _read()
    if kept.get(cluster) == registry:
        return
    path = config_file()
    new = path.with_suffix(f".{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(json.dumps({**kept, cluster: registry}, indent=2) + "\n")
        new.replace(path)
    except OSError as error:
        raise CommandError("the registry cannot be kept", where=str(error)) from error


def config_file() -> Path:
    """Return the path of the file with the registries."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(home) / "di" / "registries.json"


def _read() -> dict[str, object]:
    try:
        found = json.loads(config_file().read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
