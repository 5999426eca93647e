"""Pictures of the page for the documents: `python -m tests.browser.screenshots docs/images`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from di_cli.access.kubeconfig import read_access
from di_dashboard.main import Serving, serving
from di_dashboard.session import HistoryPlace
from tests.browser import notebook, past, scene
from tests.browser.chromium import WIDE, Browser, browser
from tests.fakes.api_server import StandIn
from tests.fakes.history import answering
from tests.unit.cli.conftest import JOBS
from tests.waiting import wait_until

PICTURES = {
    "dashboard-jobs": ("/", WIDE, False),
    "dashboard-job": (f"/jobs/rl/{scene.SHOWN}", (1280, 1180), False),
    "dashboard-failed": (f"/jobs/rl/{scene.FAILED}", WIDE, False),
    "dashboard-gone": (f"/jobs/rl/{past.GONE}?uid={past.GONE_UID}", WIDE, False),
    "dashboard-cluster": ("/cluster", (1280, 1500), True),
    "dashboard-compare": (f"/compare?{past.COMPARED}&smooth=0.6", (1280, 1180), False),
    "dashboard-usage": ("/usage?by=user&days=30", (1280, 620), False),
    "dashboard-logs": (
        f"/jobs/rl/{scene.SHOWN}/logs?pod={scene.SHOWN}-learner-0&pod={scene.SHOWN}-collector-0",
        WIDE,
        True,
    ),
}


@contextmanager
def scenery(folder: Path) -> Iterator[tuple[StandIn, Serving]]:
    """Serve the page over the scene; the shown job has reported everything."""
    with StandIn() as world:
        scene.build(world)
        access = read_access(file=world.kubeconfig(folder / "config"))
        with (
            answering() as service,
            serving(access, namespace="rl", history=HistoryPlace(server=service.url)) as served,
        ):
            past.fill(service)
            assert served.cluster_cache.wait_until_complete(30)
            for _ in scene.report(world):
                stored = world.objects[f"{JOBS}/{scene.SHOWN}"]["metadata"]["resourceVersion"]
                wait_until(partial(_has, served, stored), what="the watch to bring it")
            yield world, served


def _has(served: Serving, version: str) -> bool:
    job = served.cluster_cache.job("rl", scene.SHOWN)
    return job is not None and job["metadata"]["resourceVersion"] == version


def take(tab: Browser, folder: Path) -> Iterator[Path]:
    """Take all of them."""
    for name, (path, size, dark) in PICTURES.items():
        tab.size(size)
        tab.dark(dark)
        tab.open(path)
        file = folder / f"{name}.png"
        tab.driver.save_screenshot(str(file))
        yield file
    yield notebook.take(tab, folder)


def main(arguments: Sequence[str]) -> None:
    (folder,) = arguments
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        with scenery(place) as (_, served), browser(place / "chromium") as tab:
            tab.enter(served.url)
            for file in take(tab, Path(folder)):
                print(file)


if __name__ == "__main__":
    main(sys.argv[1:])
