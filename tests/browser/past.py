"""What a history has kept of the scene: the shown job's story, a job that is gone, and places."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.browser.scene import SHOWN, UNSEEN
from tests.fakes.history import Service

Object = dict[str, Any]
GONE = "ppo-hopper"
GONE_UID = "uid-ppo-hopper"
SEEDS = tuple(
    (f"{program}-walker-{seed}", seed, lr, most)
    for program, lr, most in (("ppo", "3e-4", 3400), ("sac", "1e-3", 4600))
    for seed in range(1, 6)
)
"""Deleted jobs of two programs: their names, seeds, learning rates, and about their last return."""
COMPARED = "&".join(f"job=rl/{name}" for name, *_ in SEEDS)
_DAY = datetime(2026, 3, 1, tzinfo=UTC)


def fill(service: Service) -> None:
    """Have it tell of the scene."""
    job = f"/v1/jobs/rl/{SHOWN}"
    service.answers[job] = _shown()
    service.answers[f"{job}/series"] = {
        "samples": [_sample(each) for each in range(1, 90) if each not in UNSEEN]
    }
    gone = f"/v1/jobs/rl/{GONE}"
    service.answers[gone] = _gone()
    service.answers[f"{gone}/series"] = {"samples": [*map(_hopper, range(1, 60))]}
    for path, replicas in ((f"{job}/revisions/1", 2), (f"{job}/revisions/2", 4)):
        service.answers[path] = _manifest(replicas)
    for pod in ("learner-0", "collector-0"):
        service.answers[f"{gone}/logs/{GONE}-{pod}"] = "".join(
            f"2026-03-01T08:30:{line:02}Z episode {line}  return {3 * line}\n" for line in range(40)
        )
    for name, seed, lr, most in SEEDS:
        path = f"/v1/jobs/rl/{name}"
        service.answers[path] = _seed(name, seed)
        service.answers[f"{path}/series"] = {
            "samples": [_walker(each, seed, most) for each in range(1, 120)]
        }
        service.answers[f"{path}/revisions/1"] = _program(name.partition("-")[0], seed, lr)
    service.answers["/v1/jobs"] = {"jobs": [_gone()["job"], _shown()["job"]]}
    service.answers["/v1/placements"] = {"placements": _everywhere()}
    service.answers["/v1/usage"] = _usage()


def _at(clock: str) -> str:
    return f"2026-03-01T{clock}.000Z"


def _entry(kind: str, clock: str, **data: Any) -> Object:
    return {"kind": kind, "at": _at(clock), **data}


def _shown() -> Object:
    return {
        "job": {
            **{"name": SHOWN, "namespace": "rl", "uid": f"uid-{SHOWN}", "owner": "kubectl-create"},
            **{"phase": "Running", "created": _at("10:20:00")},
        },
        "timeline": [
            _entry("phase", "10:20:20", phase="Starting", before="Pending"),
            _entry("phase", "10:21:10", phase="Running", before="Starting"),
            _entry(
                "failure",
                "10:47:30",
                pod=f"{SHOWN}-collector-1",
                exitCode=137,
                reason="OOMKilled",
                lastLines="2026-03-01T10:47:29Z episode 311\n2026-03-01T10:47:30Z MemoryError",
            ),
            _entry("phase", "10:47:31", phase="Restarting", before="Running"),
            _entry("phase", "10:48:40", phase="Running", before="Restarting"),
            _entry("scaling", "10:59:08", task="collector", before=2, after=4, who="di-server"),
            _entry(
                "allocation",
                "10:59:12",
                before={"learner": {"gpu-0": 1}, "collector": {"gpu-0": 2}},
                after={"learner": {"gpu-0": 1}, "collector": {"gpu-0": 2, "gpu-1": 2}},
            ),
            _entry(
                "gap", "11:16:00", **{"from": _at("11:08:00"), "changed": ["status.profilings"]}
            ),
        ],
        "revisions": [
            {"number": 1, "at": _at("10:20:00"), "who": "kubectl-create"},
            {"number": 2, "at": _at("10:59:08"), "who": "di-server"},
        ],
        "placements": [_place(SHOWN, each) for each in _OF_SHOWN],
        "logs": [{"pod": f"{SHOWN}-collector-1", "container": "di-container", "note": ""}],
    }


_OF_SHOWN = (
    ("learner", 0, "gpu-0", 4, "10:20:10", "", ""),
    ("collector", 1, "gpu-0", 1, "10:20:10", "", ""),
    ("collector", 2, "gpu-3", 1, "10:20:10", "10:47:30", "Failed"),
    ("collector", 2, "gpu-0", 1, "10:47:40", "", ""),
    ("collector", 3, "gpu-1", 1, "10:59:15", "", ""),
    ("collector", 4, "gpu-1", 1, "10:59:15", "", ""),
)
_OF_OTHERS = (
    ("halfcheetah", "learner", 0, "gpu-2", 4, "06:40:00", "", ""),
    ("halfcheetah", "collector", 1, "gpu-2", 1, "06:40:00", "", ""),
    ("halfcheetah", "collector", 2, "gpu-2", 1, "06:40:00", "", ""),
    ("halfcheetah", "collector", 3, "gpu-1", 1, "06:40:00", "10:59:00", "Deleted"),
    ("halfcheetah", "collector", 3, "gpu-3", 1, "10:59:30", "", ""),
    ("ppo-atari", "learner", 0, "gpu-3", 4, "07:40:00", "", ""),
    ("ppo-atari", "collector", 1, "gpu-3", 1, "07:40:00", "", ""),
    ("ppo-atari", "collector", 2, "gpu-3", 1, "07:40:00", "", ""),
    ("impala-50", "learner", 0, "gpu-4", 4, "08:40:00", "", ""),
    *(("impala-50", "collector", n, "gpu-4", 1, "08:40:00", "", "") for n in (1, 2)),
    *(("impala-50", "collector", n, "gpu-5", 1, "08:40:00", "", "") for n in range(3, 9)),
    (GONE, "learner", 0, "gpu-0", 4, "07:00:00", "08:58:00", "Succeeded"),
    (GONE, "collector", 1, "gpu-1", 2, "07:00:00", "08:58:00", "Succeeded"),
    (GONE, "collector", 2, "gpu-1", 2, "07:40:05", "08:58:00", "Succeeded"),
)


def _everywhere() -> list[Object]:
    told = [*((SHOWN, each) for each in _OF_SHOWN), *((each[0], each[1:]) for each in _OF_OTHERS)]
    return [
        {**_place(name, each), "namespace": "rl", "name": name, "job": f"uid-{name}"}
        for name, each in told
    ]


def _place(name: str, told: tuple[str, int, str, int, str, str, str]) -> Object:
    task, rank, node, gpus, since, until, outcome = told
    found = {
        **{"pod": f"{name}-{task}-{max(0, rank - 1)}", "task": task, "rank": rank, "node": node},
        **{"gpus": gpus, "since": _at(since), "outcome": outcome or "Running"},
    }
    if outcome == "Failed":
        found |= {"reason": "OOMKilled", "exitCode": 137}
    return found | ({"until": _at(until)} if until else {})


def _gone() -> Object:
    return {
        "job": {
            **{"name": GONE, "namespace": "rl", "uid": GONE_UID, "owner": "kubectl-create"},
            **{"phase": "Succeeded", "created": _at("06:59:00"), "completed": _at("08:58:00")},
            "deleted": _at("09:30:00"),
        },
        "timeline": [
            _entry("phase", "06:59:10", phase="Starting", before="Pending"),
            _entry("phase", "07:00:20", phase="Running", before="Starting"),
            _entry("scaling", "07:40:00", task="collector", before=1, after=2, who="di-server"),
            _entry(
                "phase",
                "08:58:00",
                phase="Succeeded",
                before="Running",
                message="all replicas have succeeded",
            ),
            _entry("deleted", "09:30:00"),
        ],
        "revisions": [{"number": 1, "at": _at("06:59:00"), "who": "kubectl-create"}],
        "placements": [_place(GONE, each[1:]) for each in _OF_OTHERS if each[0] == GONE],
        "logs": [
            {"pod": f"{GONE}-{pod}", "container": "di-container", "note": ""}
            for pod in ("learner-0", "collector-0")
        ],
    }


def _sample(point: int) -> Object:
    """As the scene reports it."""
    rng = random.Random(point)
    share = point / 90
    collectors = 2 if point < 30 else 4
    at = datetime(2026, 3, 1, 12, tzinfo=UTC) - timedelta(minutes=90 - point, seconds=1)
    values = {
        "episodeReturn": 480 / (1 + math.exp(-9 * (share - 0.42))) + rng.gauss(0, 11),
        "envStepsPerSec": collectors * 610 + rng.gauss(0, 60),
        "trainStepsPerSec": 300 + 40 * collectors + rng.gauss(0, 18),
        "learnerWaitFrac": max(0.02, (0.5 if collectors == 2 else 0.08) + rng.gauss(0, 0.03)),
    }
    return {"at": at.isoformat(), "values": values}


def _hopper(point: int) -> Object:
    rng = random.Random(point)
    at = _DAY + timedelta(hours=7, minutes=2 * point)
    values = {"episodeReturn": 3000 * point / (point + 20) + rng.gauss(0, 90)}
    return {"at": at.isoformat(), "values": values}


def _seed(name: str, seed: int) -> Object:
    return {
        "job": {
            **{"name": name, "namespace": "rl", "uid": f"uid-{name}", "owner": "kubectl-create"},
            **{"phase": "Succeeded", "created": _at("05:00:00"), "completed": _at("07:00:00")},
            "deleted": _at("08:00:00"),
        },
        "timeline": [_entry("deleted", "08:00:00")],
        "revisions": [{"number": 1, "at": _at("05:00:00"), "who": "kubectl-create"}],
        "placements": [
            _place(name, ("learner", 0, f"gpu-{seed}", 1, "05:00:30", "07:00:00", "Succeeded"))
        ],
        "logs": [],
    }


def _walker(point: int, seed: int, most: int) -> Object:
    rng = random.Random(1000 * most + 100 * seed + point)
    at = _DAY + timedelta(hours=5, minutes=point)
    end = most * (0.8 + 0.08 * seed)
    gain = end / (1 + math.exp(-7 * (point / 120 - 0.3 - 0.03 * seed))) + rng.gauss(0, 140)
    values = {"step": 1000 * point, "envSteps": 8000 * point, "episodeReturn": gain}
    return {"at": at.isoformat(), "values": values | {"loss": 3.0 / point + rng.random() / 20}}


def _program(program: str, seed: int, lr: str) -> Object:
    args = [f"{program}.py", "--env", "Walker2d-v5", "--lr", lr, "--seed", str(seed)]
    return {"spec": {"tasks": [{"type": "learner", "args": args}]}}


def _manifest(replicas: int) -> Object:
    return {
        "apiVersion": "diengine.opendilab.org/v2alpha1",
        "kind": "DIJob",
        "metadata": {"name": SHOWN, "namespace": "rl"},
        "spec": {"tasks": [{"type": "learner"}, {"type": "collector", "replicas": replicas}]},
    }


def _usage() -> Object:
    """GPU-hours of four users, and of pods whose user is not known."""
    rows = [
        ("ann", 41, 1310.4, (0.81, 0.09, 0.03, 0.06, 0.01)),
        ("ben", 112, 902.7, (0.52, 0.31, 0.11, 0.05, 0.01)),
        ("chris", 8, 611.0, (0.88, 0.05, 0.0, 0.03, 0.04)),
        ("dora", 64, 147.9, (0.44, 0.21, 0.05, 0.22, 0.08)),
        ("", 3, 12.2, (0.6, 0.1, 0.0, 0.3, 0.0)),
    ]
    uses = ("training", "waiting", "stale", "starting", "lost")
    groups: list[dict[str, Any]] = [
        {
            "user": user,
            "jobs": jobs,
            "gpuHours": hours,
            "useful": {use: hours * share for use, share in zip(uses, shares, strict=True)},
            "usefulShare": shares[0],
            "cost": hours * 2.5,
        }
        for user, jobs, hours, shares in rows
    ]
    hours = sum(row[2] for row in rows)
    total = {use: sum(group["useful"][use] for group in groups) for use in uses}
    everything = {"jobs": sum(row[1] for row in rows), "gpuHours": hours, "useful": total}
    share = total["training"] / hours
    return {
        "usage": groups,
        "total": {**everything, "usefulShare": share, "cost": hours * 2.5},
    }
