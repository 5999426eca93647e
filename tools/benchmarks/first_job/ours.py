"""`di submit`, then `di push` after each edit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tools.benchmarks.first_job.rounds import NAMESPACE, PROGRAM, Place, Round, timed

_JOB = "train"


def measure(place: Place, edits: int) -> list[Round]:
    """Run a job and push so many edits."""
    found: list[Round] = []
    for number in range(edits + 1):
        with timed(number, found) as logs:
            (place.folder / "train.py").write_text(PROGRAM.format(number=number))
            words = ("push", _JOB) if number else ("submit", "train.py", "--image", place.image)
            subprocess.run(
                [Path(sys.executable).parent / "di", *words, "--namespace", NAMESPACE],
                cwd=place.folder,
                env={**os.environ, "KUBECONFIG": str(place.kubectl.kubeconfig)},
                stdout=sys.stderr,
                check=True,
            )
            logs.append(place.log_of(f"{_JOB}-learner-0"))
    place.delete("dijob", _JOB)
    return found
