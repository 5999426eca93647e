"""A chief whose parameter servers are scaled begins again with all of them, as the page has it."""

from __future__ import annotations

import sys
from typing import Any

from tests.integration.local.test_run_command import Command, command
from tests.unit.local.machine import FOR_EVER, job, task

__all__ = ["command"]

CHIEF = """
import json, os, sys, time
import di_orchestrator as di
servers = len(json.loads(os.environ["TF_CONFIG"])["cluster"]["ps"])
print("servers", servers, flush=True)
if os.path.exists("ended"):
    sys.exit(0)
di.group_changed("ps")
wanted = servers
for world in di.watch_worlds("ps"):
    if not world.is_formed:
        continue
    # The thread that follows the group may see the second world first: then there is a third one.
    until = time.monotonic() + (5 if wanted != servers else 0)
    while time.monotonic() < until:
        if di.group_changed("ps"):
            open("ended", "w").close()
            sys.exit(75)
        time.sleep(0.02)
    wanted = 3 - wanted
    print("wants", wanted, flush=True)
    di.scale("ps", to=wanted)
"""


def _task(name: str, program: str, **fields: Any) -> dict[str, Any]:
    command = [sys.executable, "-c", program]
    group = {"framework": "tensorflow", **fields.pop("group", {})}
    kind = "learner" if name == "chief" else "none"
    return {**task(command, kind, **fields), "name": name, "processGroup": group}


def test_a_chief_begins_again_with_a_changed_set_of_servers(command: Command) -> None:
    rule = {
        "tasks": ["chief"],
        "onExitCodes": {"operator": "In", "values": [75]},
        "action": "Ignore",
    }
    several = {"minReplicas": 1, "maxReplicas": 2, "group": {"elastic": True}}
    tasks = [_task("chief", CHIEF), _task("worker", FOR_EVER), _task("ps", FOR_EVER, **several)]
    spec: dict[str, Any] = {
        "failurePolicy": {"rules": [rule]},
        "successPolicy": {"tasks": ["chief"]},
    }
    code, said = command.run("-f", command.manifest(job(*tasks, **spec)))
    assert code == 0, said
    chief = [line.split(" ", 1)[1].split() for line in said.splitlines() if "-chief-0 " in line]
    (before, *wanted, after) = chief
    assert before == ["servers", "1"]
    assert after == ["servers", wanted[-1][1]]
    assert "Succeeded in" in said
