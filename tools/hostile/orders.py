"""Attackers and good clients as a pod runs them: an order comes in, a report goes out.

    python -m tools.hostile.orders '{"seconds": 5, "connections": 10, "attack": "idle",
        "targets": {"server": {"host": "...", "port": 8081, "tls": false, "request": "GET ..."}}}'

Without `attack` the targets are visited. Prints a JSON object with what each target saw. It needs
nothing but Python's standard library.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from typing import Any

from tools.hostile.attackers import Plan, attack, goes_with
from tools.hostile.target import Target
from tools.hostile.visitors import visit


async def carry_out(order: dict[str, Any]) -> dict[str, Any]:
    """What each target of the order saw, all at the same time."""
    targets = {
        name: Target(**{**fields, "request": fields["request"].encode()})
        for name, fields in order["targets"].items()
    }
    reports = await asyncio.gather(*(_one(order, target) for target in targets.values()))
    return dict(zip(targets, reports, strict=True))


async def _one(order: dict[str, Any], target: Target) -> dict[str, Any]:
    kind, seconds = order.get("attack"), order["seconds"]
    if kind is None:
        await asyncio.sleep(order["after"])
        waits = await visit(
            target, visitors=order["visitors"], seconds=seconds, think=order["think"]
        )
        return waits.report()
    if not goes_with(kind, target):
        return {"opened": 0, "faults": {}}
    tally = await attack(kind, target, Plan(connections=order["connections"], seconds=seconds))
    return {"opened": tally.opened, "faults": tally.faults}


if __name__ == "__main__":
    # What asyncio says of connections that end under it is what an attack is made of.
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    print(json.dumps(asyncio.run(carry_out(json.loads(sys.argv[1])))))
