"""A claim with bundles, as a folder of this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from di_unpack import keep


def claim_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of bundles on a claim. A kubectl on PATH runs the program of the pod there,
    and writes its arguments to `asked`.
    """
    folder, program = tmp_path / "claim", tmp_path / "bin" / "kubectl"
    folder.mkdir()
    program.parent.mkdir()
    text = Path(keep.__file__).read_text().replace('"/di-code"', repr(str(folder)))
    (tmp_path / "keep.py").write_text(text)
    program.write_text(
        f"#!/bin/sh\necho \"$@\" >> '{tmp_path}/asked'\nexec {sys.executable} {tmp_path}/keep.py\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return folder
