"""The programs of the package's documents run outside a job."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUN_ALL = """
import json, sys
for block in json.load(sys.stdin):
    try:
        exec(compile(block, "block", "exec"), {"__name__": "__main__"})
    except BaseException:
        print(block, file=sys.stderr)
        raise
"""


def test_every_example_of_the_documents_runs(tmp_path: Path) -> None:
    """All in one process: an import of the package takes longer than most of them."""
    pages = (ROOT / "docs" / "reference/sdk.md", ROOT / "sdk" / "README.md")
    blocks = [block for page in pages for block in BLOCK.findall(page.read_text())]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("DI_")}
    done = subprocess.run(
        [sys.executable, "-c", RUN_ALL],
        input=json.dumps(blocks),
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(blocks) > 10
    assert [line for line in done.stderr.splitlines() if "not in a DIJob" not in line] == []
