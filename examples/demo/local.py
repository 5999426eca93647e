"""`make try`: a training job as processes of this machine, and its learning curve."""

from __future__ import annotations

import sys

from di_local.main import SUCCEEDED, conclude, run_file
from examples.demo.manifests import ROOT
from examples.demo.records import record_of


def main() -> int:
    """Run the CartPole example here and draw what it has learned; returns the exit code."""
    manifest = ROOT / "examples" / "cartpole" / "job.yaml"
    outcome = run_file(manifest)
    code = conclude(outcome)
    record = record_of(outcome.job.get("status", {}).get("profilings", {}))
    if code != SUCCEEDED or record is None:
        return code
    print(record.draw_terminal())
    picture = ROOT / "out" / "cartpole.png"
    picture.parent.mkdir(exist_ok=True)
    record.draw_png(picture, title=f"DIJob {outcome.job['metadata']['name']}")
    print(f"curve: {picture.relative_to(ROOT)}   the same on a cluster: make demo")
    return code


if __name__ == "__main__":
    sys.exit(main())
