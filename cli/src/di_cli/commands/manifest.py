"""Reading the manifests that commands are given."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from di_cli.edits.manifests import MOST_BYTES, ManifestError


def documents_of(file: str) -> list[object]:
    """The YAML documents of a file, or of stdin (`-`). Raises ManifestError."""
    try:
        if file == "-":
            raw = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with Path(file).open("rb") as opened:
                raw = opened.read(MOST_BYTES + 1)
        if len(raw) > MOST_BYTES:
            raise ManifestError(f"{file} is larger than {MOST_BYTES >> 20} MiB")
        return list(yaml.safe_load_all(raw))
    except OSError as error:
        raise ManifestError(f"{file}: {error.strerror or error}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ManifestError(f"{file}: {' '.join(str(error).split())}") from error
