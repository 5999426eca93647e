"""What the documents say of the package runs, outside a job."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = [
    pytest.param(block, id=f"{file.stem}-{number}")
    for file in (ROOT / "docs" / "sdk.md", ROOT / "sdk" / "README.md")
    for number, block in enumerate(BLOCK.findall(file.read_text()))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_an_example_runs(block: str, tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("DI_")}
    done = subprocess.run(
        [sys.executable, "-c", block],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if "not in a DIJob" not in line] == []
