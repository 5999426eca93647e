"""Entry point of every pod of the job; its argument says what it is."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from functools import partial

import di_orchestrator as di
from di_coordinated import collector
from di_coordinated.client import REQUEST_SECONDS
from di_coordinated.coordinator import Coordinator, NotSolved


def main() -> None:
    """Run this pod's part; exit code 0 when training succeeded or the pod was asked to leave."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    leaving = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: leaving.set())
    try:
        match sys.argv[1:]:
            case ["coordinator"]:
                work = _coordinator(leaving).run
            case ["collector"]:
                work = partial(
                    collector.run, port=int(os.environ["COLLECTOR_PORT"]), leaving=leaving
                )
            case other:
                sys.exit(f"{other}: coordinator or collector is expected")
    except KeyError as error:
        sys.exit(f"{error.args[0]} is not set: this program runs in a DIJob with a coordinator")
    except di.NotInJob as error:
        sys.exit(str(error))
    try:
        work()
    except (NotSolved, di.DIError) as error:
        sys.exit(str(error))


def _coordinator(leaving: threading.Event) -> Coordinator:
    resources = {
        "cpus": os.environ.get("COLLECTOR_CPUS", "200m"),
        "memory": os.environ.get("COLLECTOR_MEMORY", "256Mi"),
    }
    seed = int(os.environ.get("SEED", "1"))
    # It does without new collectors for as long as di-server is away.
    server = di.coordinator(seconds=REQUEST_SECONDS)
    return Coordinator(server=server, resources=resources, leaving=leaving, seed=seed)


if __name__ == "__main__":
    main()
