"""Early stopping of the example's trials, by the curves that its program has had."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from di_api.sweeps import load_sweep
from tools.benchmarks.sweeps.cartpole import MANIFEST, simulated
from tools.benchmarks.sweeps.picture import draw, placed

CURVES = json.loads(Path(__file__).with_name("cartpole_curves.json").read_text())
"""Environment steps and mean return after each generation of 64 trials, as
`python -m tools.benchmarks.sweeps.cartpole --curves FILE` writes them."""


@pytest.mark.proves("sweeps.md#early-stopping")
def test_halving_finds_the_best_cartpole_policy_with_a_third_of_the_gpu_seconds() -> None:
    manifest = yaml.safe_load(MANIFEST.read_text())
    manifest["spec"] |= {"maxTrials": len(CURVES), "parallelism": 8}
    spec = load_sweep(manifest)
    stopping = simulated(spec, CURVES)
    whole = simulated(replace(spec, early_stopping=None), CURVES)
    assert stopping.value >= 0.98 * whole.value
    assert stopping.gpu_seconds <= 0.3 * whole.gpu_seconds
    # As the page has them.
    shown = (stopping.value, stopping.gpu_seconds, stopping.seconds, stopping.stopped)
    assert tuple(round(each) for each in shown) == (500, 317, 129, 57)
    shown = (whole.value, whole.gpu_seconds, whole.seconds, whole.stopped)
    assert tuple(round(each) for each in shown) == (500, 2106, 355, 0)


def test_trials_of_one_node_follow_each_other_in_the_picture(tmp_path: Path) -> None:
    manifest = yaml.safe_load(MANIFEST.read_text())
    manifest["spec"] |= {"maxTrials": len(CURVES), "parallelism": 8}
    found = simulated(load_sweep(manifest), CURVES)
    nodes = placed(found.trials)
    assert set(nodes) == set(range(8))
    for node in range(8):
        ran = sorted(
            (each.begin, each.end)
            for each, at in zip(found.trials, nodes, strict=True)
            if at == node
        )
        assert all(before[1] <= after[0] for before, after in pairwise(ran))
    draw(found.trials, found.best, 8, tmp_path / "sweep.png")
    assert (tmp_path / "sweep.png").read_bytes().startswith(b"\x89PNG")
