"""Whether a history of scaling is linearizable, by porcupine."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from di_cluster.builds.gobuild import Builder
from di_cluster.reporter import Reporter
from di_cluster.settings import Settings

MODULES: Final = Path(__file__).resolve().parent / "go"
PATIENCE_SECONDS: Final = 60
"""For one history; the verdict is Unknown if it takes longer."""


def checker() -> Path:
    """The program that checks a history; it is built if it is not in the cache."""
    settings = Settings.from_environment(os.environ)
    program = _built(settings)
    if not program.exists():
        builder = Builder(
            modules=MODULES,
            cache=settings.cache,
            search_path=settings.search_path,
            reporter=Reporter(sys.stderr),
        )
        built = builder.build("linear", stamps={})
        try:
            program.parent.mkdir(parents=True, exist_ok=True)
            (built / "linear").replace(program)
        finally:
            shutil.rmtree(built)
    return program


def is_ready() -> bool:
    """Whether `checker` has nothing to build."""
    return _built(Settings.from_environment(os.environ)).exists()


def _built(settings: Settings) -> Path:
    sources = b"".join(path.read_bytes() for path in sorted((MODULES / "linear").iterdir()))
    return settings.cache / "bin" / f"linear-{hashlib.sha256(sources).hexdigest()[:12]}" / "linear"


def verdicts(program: Path, histories: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Ok, Illegal or Unknown of each history."""
    done = subprocess.run(
        [str(program), f"{PATIENCE_SECONDS}s"],
        input=json.dumps(histories),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS * (len(histories) + 1),
        check=True,
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


def history(
    operations: Sequence[Mapping[str, Any]], *, first: int, least: int, most: int, last: int
) -> dict[str, Any]:
    """Operations, and a read of the count that was there when all had ended."""
    end = max((operation["return"] for operation in operations), default=0)
    read = {
        "client": -1,
        "call": end + 1,
        "return": end + 2,
        "kind": "read",
        "delta": 0,
        "answer": "set",
        "value": last,
    }
    return {"first": first, "least": least, "most": most, "operations": [*operations, read]}
