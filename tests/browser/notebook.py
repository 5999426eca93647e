"""A comparison of jobs as a notebook shows it, for a picture of the documents."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Final

from di_cli.client.comparison import ComparedJobs
from di_cli.views.comparison import Compared, Comparison, Point
from tests.browser.chromium import Browser

NAME: Final = "compare"
SIZE: Final = (820, 650)
_STYLE: Final = """
body { font: 14px "DejaVu Sans"; margin: 16px }
table { border-collapse: collapse; margin-top: 14px }
th, td { padding: 3px 12px 3px 0; text-align: left }
thead { border-bottom: 1px solid #888 }
"""


def comparison() -> ComparedJobs:
    """Three seeds of PPO beside one run of SAC."""
    jobs = [_job("ppo", seed, 430, 26) for seed in (1, 2, 3)]
    return ComparedJobs(Comparison(wanted="return", jobs=[*jobs, _job("sac", 1, 480, 14)]))


def take(tab: Browser, folder: Path) -> Path:
    """Take the picture; its page is in the folder of a browser that may read it."""
    page = folder / f"{NAME}.html"
    body = comparison()._repr_html_()
    page.write_text(f"<!doctype html><meta charset=utf-8><style>{_STYLE}</style>{body}")
    tab.size(SIZE)
    tab.dark(False)
    tab.driver.get(page.resolve().as_uri())
    file = folder / f"{NAME}.png"
    tab.driver.save_screenshot(str(file))
    page.unlink()
    return file


def _job(program: str, seed: int, best: float, speed: float) -> Compared:
    rng = random.Random(f"{program}-{seed}")
    points = [
        Point(step * 1000.0, step * 20.0, _value(rng, step, best * rng.uniform(0.94, 1), speed))
        for step in range(100)
    ]
    return Compared(
        name=f"{program}-{seed}",
        metric="return",
        points=points,
        seconds=2040,
        nodes=[f"gpu-{seed}"],
        fields={"tasks[learner].template.spec.containers[di-container].command": f"{program}.py"},
        seeds=[str(seed)],
        is_whole=True,
    )


def _value(rng: random.Random, step: int, best: float, speed: float) -> float:
    return best * (1 - math.exp(-step / speed)) + rng.gauss(0, 9)
