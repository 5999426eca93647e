"""Every seed of the fuzzer, with every input that once broke something, raises nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.fuzz.targets import TARGETS

SEEDS = [(name, seed) for name in TARGETS for seed in sorted(TARGETS[name].seeds.iterdir())]


@pytest.mark.parametrize(
    ("name", "seed"), SEEDS, ids=[f"{name}-{seed.name}" for name, seed in SEEDS]
)
def test_a_seed_raises_nothing(name: str, seed: Path) -> None:
    TARGETS[name].feed(seed.read_bytes())
