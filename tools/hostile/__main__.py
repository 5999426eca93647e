"""How long good clients of a service wait, alone and beside bad ones.

    python -m tools.hostile https://127.0.0.1:8443/validate --body review.json --connections 100
    python -m tools.hostile http://127.0.0.1:8081/healthz --probe http://127.0.0.1:8082/healthz

Prints one JSON object, and a line that says it in short.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tools.hostile.attackers import KINDS, Plan, goes_with, run
from tools.hostile.target import Target, request
from tools.hostile.visitors import Waits, visit


def target_of(url: str, body: bytes | None) -> Target:
    """The target that a URL names; POST with a body, else GET."""
    parts = urlsplit(url)
    tls = parts.scheme == "https"
    return Target(
        host=parts.hostname or "127.0.0.1",
        port=parts.port or (443 if tls else 80),
        tls=tls,
        request=request("GET" if body is None else "POST", parts.path or "/", body=body),
    )


def measure(
    target: Target, kind: str | None, options: argparse.Namespace
) -> tuple[Waits, Waits | None]:
    """Visit the target, and the probe if there is one, while an attack of a kind goes on."""
    seconds: float = options.seconds
    attackers = None
    if kind is not None:
        # In a process of its own: what it does is not to slow the visitors' clocks.
        spawn = multiprocessing.get_context("spawn")
        began = spawn.Event()
        plan = Plan(connections=options.connections, seconds=seconds + 5, source=options.source)
        attackers = spawn.Process(target=run, args=(began, kind, target, plan))
        attackers.start()
        while not began.wait(1):
            if not attackers.is_alive():
                raise RuntimeError(f"the attackers ended with {attackers.exitcode}")
    try:
        return asyncio.run(_visit(target, options, warm=1.0 if kind else 0.0))
    finally:
        if attackers is not None:
            attackers.terminate()
            attackers.join()


async def _visit(
    target: Target, options: argparse.Namespace, *, warm: float
) -> tuple[Waits, Waits | None]:
    await asyncio.sleep(warm)
    at_target = visit(target, visitors=options.visitors, seconds=options.seconds)
    if options.probe is None:
        return await at_target, None
    at_probe = visit(target_of(options.probe, None), visitors=1, seconds=options.seconds)
    waits, probed = await asyncio.gather(at_target, at_probe)
    return waits, probed


def _report(waits: Waits, probed: Waits | None) -> dict[str, Any]:
    report = waits.report()
    if probed is not None:
        report["probe"] = probed.report()
    return report


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url", help="of a request that is answered with 200")
    parser.add_argument("--body", type=Path, help="file with the request's body; makes it a POST")
    parser.add_argument("--probe", help="URL of a probe that must be answered meanwhile")
    parser.add_argument("--kinds", default="", help=f"with commas; default all: {', '.join(KINDS)}")
    parser.add_argument("--connections", type=int, default=100, help="of each attack")
    parser.add_argument("--visitors", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--source", help="address that attackers come from, as 127.0.0.2")
    options = parser.parse_args()
    target = target_of(options.url, options.body.read_bytes() if options.body else None)
    kinds = [kind for kind in options.kinds.split(",") if kind] or [
        kind for kind in KINDS if goes_with(kind, target)
    ]
    results = {"clean": _report(*measure(target, None, options))}
    for kind in kinds:
        results[kind] = _report(*measure(target, kind, options))
    print(json.dumps(results, indent=2))
    clean = results["clean"]["p99_ms"]
    print(
        f"p99 of good clients: clean {clean} ms; "
        + ", ".join(f"{kind} {results[kind]['p99_ms']}" for kind in kinds)
        + f"; failures {sum(result['failures'] for result in results.values())}"
    )


if __name__ == "__main__":
    main()
