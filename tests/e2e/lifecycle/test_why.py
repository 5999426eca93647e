"""The score of `di why` on a real node: in how many seeded failures its first line has the cause.

All jobs are there at once, and are asked about until each is explained, then once more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from di_api.explain import Cause
from di_cli.main import run
from di_cluster.nodes.simulated import NODE_LABEL, NODE_TAINT
from tests.e2e.kubectl import Kubectl
from tests.e2e.seeded import SEEDS, WRONG_NAME, Seed
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


@pytest.mark.usefixtures("release", "gpu_nodes", "shell")
def test_why_finds_the_cause_of_what_is_wrong(
    kubectl: Kubectl,
    namespace: str,
    python_image: str,
    capsys: pytest.CaptureFixture[str],
    record_property: Callable[[str, object], None],
) -> None:
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
    complaints = [f"{name}: {found}" for name, found in wrong.items() if found]
    right = len(EXPECTED) - len(complaints)
    record_property("score", f"di why on a node: {right} of {len(EXPECTED)} first lines right")
    assert right >= RIGHT * len(EXPECTED), "\n".join(complaints)


@pytest.fixture
def first_line(shell: None, capsys: pytest.CaptureFixture[str]) -> Callable[[str, str], str]:
    """The first line that the command prints for a job of a namespace."""

    def asked(name: str, namespace: str) -> str:
        capsys.readouterr()
        run(["why", name, "--namespace", namespace])
        return capsys.readouterr().out.partition("\n")[0]

    return asked


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("LimitRange", "maximum cpu usage per Container is 100m, but limit is 1"),
        ("PodSecurity", 'seccompProfile.type to "RuntimeDefault" or "Localhost"'),
    ],
)
def test_why_shows_a_refusal_of_the_namespace_as_a_whole(
    kubectl: Kubectl,
    namespace: str,
    python_image: str,
    *,
    first_line: Callable[[str, str], str],
    rule: str,
    words: str,
) -> None:
    if rule == "LimitRange":
        limits = [{"type": "Container", "max": {"cpu": "100m"}}]
        _apply(kubectl, namespace, _object("LimitRange", "of-the-team", spec={"limits": limits}))
    else:
        level = "pod-security.kubernetes.io/enforce=restricted"
        kubectl("label", "namespace", namespace, level, "--overwrite")
    seed = Seed(cause=Cause.REFUSED, says=words, container={"resources": {"limits": {"cpu": "1"}}})
    _apply(kubectl, namespace, seed.manifest("refused", namespace=namespace, image=python_image))
    wait_until(lambda: words in first_line("refused", namespace), what=words)


def test_why_names_who_suspended_a_job_and_what_holds_a_deleted_one(
    kubectl: Kubectl, namespace: str, python_image: str, first_line: Callable[[str, str], str]
) -> None:
    seed = SEEDS["suspended"]
    _apply(kubectl, namespace, seed.manifest("held", namespace=namespace, image=python_image))
    # The webhook notes the user, and the API server the command that wrote the field.
    author = re.compile(r"is suspended for \S+ by \S+ \(kubectl-client-side-apply\)")
    wait_until(lambda: author.search(first_line("held", namespace)), what=author.pattern)
    finalizers = json.dumps({"metadata": {"finalizers": ["example.org/hold"]}})
    of_job = ("--namespace", namespace, "patch", "dijob", "held", "--type", "merge", "--patch")
    kubectl(*of_job, finalizers)
    kubectl("--namespace", namespace, "delete", "dijob", "held", "--wait=false")
    try:
        wait_until(lambda: "held by finalizer example.org/hold" in first_line("held", namespace))
    finally:
        kubectl(*of_job, json.dumps({"metadata": {"finalizers": None}}))


def test_why_names_the_cordoned_nodes(
    kubectl: Kubectl,
    namespace: str,
    python_image: str,
    gpu_nodes: list[str],
    first_line: Callable[[str, str], str],
) -> None:
    # A toleration of everything would tolerate the cordon too.
    tolerations = [{"key": NODE_TAINT["key"], "operator": "Exists"}]
    taken = {"nodeSelector": {NODE_LABEL[0]: NODE_LABEL[1]}, "tolerations": tolerations}
    seed = Seed(cause=Cause.CORDONED, says="", pod=taken)
    kubectl("cordon", *gpu_nodes)
    try:
        _apply(kubectl, namespace, seed.manifest("away", namespace=namespace, image=python_image))
        words = "are cordoned (taint node.kubernetes.io/unschedulable:NoSchedule)"
        wait_until(lambda: words in first_line("away", namespace), what=words)
    finally:
        kubectl("uncordon", *gpu_nodes)


def _apply(kubectl: Kubectl, namespace: str, manifest: dict[str, Any]) -> None:
    kubectl("--namespace", namespace, "apply", "--filename", "-", stdin=json.dumps(manifest))


def _object(kind: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **fields}


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
