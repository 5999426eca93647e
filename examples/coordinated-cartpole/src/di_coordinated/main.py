"""Entry point of every pod of the job; its argument says what it is."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from functools import partial

from di_coordinated import collector
from di_coordinated.coordinator import Coordinator, NotSolved
from di_coordinated.di_server import DIServer


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
    try:
        work()
    except NotSolved as error:
        sys.exit(str(error))


def _coordinator(leaving: threading.Event) -> Coordinator:
    server = DIServer(
        url=os.environ["KUBERNETES_SERVER_URL"],
        namespace=os.environ["KUBERNETES_POD_NAMESPACE"],
        coordinator=os.environ["KUBERNETES_POD_NAME"],
        resources={
            "cpus": os.environ.get("COLLECTOR_CPUS", "200m"),
            "memory": os.environ.get("COLLECTOR_MEMORY", "256Mi"),
        },
        token_file=os.environ.get("DI_SERVER_TOKEN_FILE"),
    )
    return Coordinator(server=server, leaving=leaving, seed=int(os.environ.get("SEED", "1")))


if __name__ == "__main__":
    main()
