"""Where what is released comes from: an in-toto statement with SLSA provenance (version 1).

It says what was built out of which commit; that it is true, a signature would have to say.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

_BUILD: Final = "urn:di-orchestrator:make-release:v1"


def sha256(file: Path) -> str:
    """The checksum of a file."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def commit(root: Path) -> tuple[str, bool]:
    """The commit that is checked out, and whether the files are those of it."""

    def git(*arguments: str) -> str:
        command = ["git", *arguments]
        return subprocess.run(
            command, cwd=root, check=True, capture_output=True, text=True, timeout=60
        ).stdout.strip()

    return git("rev-parse", "HEAD"), not git("status", "--porcelain")


def statement(
    directory: Path,
    files: Iterable[Path],
    *,
    version: str,
    revision: str,
    locks: Iterable[tuple[str, Path]],
) -> dict[str, Any]:
    """What was made, and out of what.

    Args:
        directory: where the files are; they are named from there.
        files: what was made.
        version: of the release.
        revision: the commit.
        locks: the files that pin what others made, by their names in the repository.
    """
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": str(file.relative_to(directory)), "digest": {"sha256": sha256(file)}}
            for file in sorted(files)
        ],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": _BUILD,
                "externalParameters": {"version": version},
                "resolvedDependencies": [
                    {"name": "source", "digest": {"gitCommit": revision}},
                    *({"name": name, "digest": {"sha256": sha256(file)}} for name, file in locks),
                ],
            },
            "runDetails": {"builder": {"id": _BUILD}},
        },
    }
