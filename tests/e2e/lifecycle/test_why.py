"""The score of `di why` on a real node: in how many seeded failures its first line has the cause.

All jobs are there at once, and are asked about until each is explained, then once more.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest

from di_api.explain import Cause
from di_cli.main import run
from tests.e2e.kubectl import Kubectl
from tests.e2e.seeded import SEEDS, WRONG_NAME
from tests.waiting import wait_until

# What a cluster shows of each cause is explained in tests/unit/api/explain/test_causes_*.py.
pytestmark = pytest.mark.extended

"""In which all but those that it is wrong about are explained; most of them are within thirty."""
RIGHT = 38 / 40
"""The share that has to be right."""
EXPECTED = {
    **{name: (seed.cause, seed.says) for name, seed in SEEDS.items()},
    WRONG_NAME: (Cause.WRONG_NAME, f"there is no job {WRONG_NAME}"),
}


@pytest.mark.usefixtures("release", "gpu_nodes")
def test_why_finds_the_cause_of_what_is_wrong(
    kubectl: Kubectl,
    namespace: str,
    python_image: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubectl.kubeconfig))
    _sow(kubectl, namespace, python_image)
    unexplained = dict(EXPECTED)

    def explained() -> bool:
        for name in [*unexplained]:
            if not _wrong(name, namespace, capsys):
                del unexplained[name]
        return not unexplained

    with suppress(AssertionError):  # it is what the score is for
        wait_until(explained)
    wrong = {name: _wrong(name, namespace, capsys) for name in EXPECTED}
    complaints = [f"  {name}: {found}" for name, found in wrong.items() if found]
    right = len(EXPECTED) - len(complaints)
    with capsys.disabled():
        print("", f"di why: {right} of {len(EXPECTED)} causes right", *complaints, sep="\n")
    assert right >= RIGHT * len(EXPECTED)


def _sow(kubectl: Kubectl, namespace: str, image: str) -> None:
    """Make what is there beside the jobs, and then all jobs at once."""
    beside = [each for seed in SEEDS.values() for each in seed.beside]
    jobs = [seed.manifest(name, namespace=namespace, image=image) for name, seed in SEEDS.items()]
    for found in (beside, jobs):
        body = json.dumps({"apiVersion": "v1", "kind": "List", "items": found})
        kubectl("--namespace", namespace, "apply", "--filename", "-", stdin=body)


def _wrong(name: str, namespace: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What is wrong with the first line that the command prints; empty if nothing is."""
    capsys.readouterr()
    run(["why", name, "--namespace", namespace, "--json"])
    out, err = capsys.readouterr()
    if not out:
        return err
    found: dict[str, Any] = json.loads(out)
    cause, says = EXPECTED[name]
    if found["cause"] == cause and says in found["summary"]:
        return ""
    return f"is {cause} ({says}), not {found}"
