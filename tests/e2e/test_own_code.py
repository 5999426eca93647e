"""Own code without an image, on a real node: submitted, changed, and pushed."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from di_cli.exit_codes import ExitCode
from di_cli.main import run
from tests.e2e.claims import claim_of
from tests.e2e.kubectl import Kubectl
from tests.waiting import wait_until

PROGRAM = """
import pathlib, time
import di_orchestrator as di
from lib import words
print(words.FIRST, di.job().task_type, di.job().rank, pathlib.Path.cwd(), flush=True)
time.sleep(3600)
"""


@pytest.mark.usefixtures("release", "shell")
@pytest.mark.proves("own-code.md#submit")
def test_a_folder_runs_in_an_image_with_python_and_a_push_replaces_its_code(
    kubectl: Kubectl,
    *,
    namespace: str,
    python_image: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    said: Callable[..., str],
) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "train.py").write_text(PROGRAM)
    words = tmp_path / "lib" / "words.py"
    words.write_text("FIRST = 'before'\n")

    def lines(first: str) -> Callable[[], bool]:
        wanted = [f"{first} collector {rank} /code" for rank in (1, 2, 3)]
        wanted += [f"{first} learner 0 /code"]

        def is_there() -> bool:
            capsys.readouterr()
            if run(["logs", "own", "--namespace", namespace]) != ExitCode.DONE:
                return False
            found = [line.split(maxsplit=1)[1] for line in capsys.readouterr().out.splitlines()]
            return sorted(found) == wanted

        return is_there

    begun = time.monotonic()
    words_of_submit = ("--name", "own", "--collectors", "3", "--image", python_image)
    assert said("submit", ".", "--entry", "train.py", *words_of_submit) == "dijob/own submitted\n"
    wait_until(lines("before"))
    submitted = time.monotonic()
    words.write_text("FIRST = 'after'\n")
    # More than one ConfigMap has.
    (tmp_path / "data.bin").write_bytes(os.urandom(2 << 20))
    assert said("push", "own") == "dijob/own restarts with new code: data.bin, lib/words.py\n"
    code = kubectl.get("dijob", "own", namespace=namespace)["spec"]["code"]
    assert code["parts"] > 2
    wait_until(lines("after"))
    with capsys.disabled():
        print(f"submit {submitted - begun:.1f} s, push {time.monotonic() - submitted:.1f} s")
    status = kubectl.get("dijob", "own", namespace=namespace)["status"]
    assert (status.get("restarts", 0), status["phase"]) == (0, "Running")
    said("delete", "own")

    def is_clean() -> bool:
        names = kubectl("get", "configmaps", "--namespace", namespace, "--output", "name")
        return "own-code" not in str(names)

    # The job owns its bundles, which the garbage collector deletes with it.
    wait_until(is_clean)


def job_template(name: str, namespace: str, container: dict[str, Any]) -> dict[str, Any]:
    """A DIJobTemplate with fields of the program's container."""
    containers = [{"name": "di-container", **container}]
    return {
        "apiVersion": "diengine.opendilab.org/v2alpha1",
        "kind": "DIJobTemplate",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"job": {"template": {"spec": {"containers": containers}}}},
    }


LARGE = """
import hashlib, pathlib, time
data = pathlib.Path("data.bin").read_bytes()
print(WORD, len(data), hashlib.sha256(data).hexdigest(), flush=True)
time.sleep(3600)
"""


@pytest.mark.usefixtures("release", "shell")
@pytest.mark.proves("own-code.md#large-code")
def test_a_bundle_of_30_mib_runs_from_a_claim(
    kubectl: Kubectl,
    *,
    namespace: str,
    python_image: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    said: Callable[..., str],
) -> None:
    data = os.urandom(30 << 20)
    expected = f"{len(data)} {hashlib.sha256(data).hexdigest()}"
    (tmp_path / "data.bin").write_bytes(data)
    program = tmp_path / "train.py"
    program.write_text(LARGE.replace("WORD", "'before'"))

    with claim_of(kubectl, namespace, "bundles", "200Mi") as claim:
        kubectl(
            *("--namespace", namespace, "label", "persistentvolumeclaim", claim),
            "diengine/code-store=true",
        )
        # A folder of the node belongs to root.
        kubectl.apply(job_template("root", namespace, {"securityContext": {"runAsUser": 0}}))
        begun = time.monotonic()
        words = ("--name", "big", "--image", python_image, "--template", "root")
        said("submit", ".", "--entry", "train.py", *words)
        wait_until(lambda: f"before {expected}" in said("logs", "big"))
        submitted = time.monotonic()
        code = kubectl.get("dijob", "big", namespace=namespace)["spec"]["code"]
        assert code["persistentVolumeClaim"] == claim
        program.write_text(LARGE.replace("WORD", "'after'"))
        assert said("push", "big") == "dijob/big restarts with new code: train.py\n"
        wait_until(lambda: f"after {expected}" in said("logs", "big"))
        with capsys.disabled():
            print(f"submit {submitted - begun:.1f} s, push {time.monotonic() - submitted:.1f} s")
        pods = kubectl("--namespace", namespace, "get", "pods", "--output", "name")
        assert str(pods).split() == ["pod/big-learner-0"]


@pytest.mark.usefixtures("release", "shell")
def test_a_program_is_followed_to_its_end_and_gives_its_way_of_ending(
    kubectl: Kubectl,
    *,
    namespace: str,
    python_image: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = tmp_path / "brief.py"
    program.write_text(
        "import sys\nprint('line of', sys.argv[1])\nsys.exit(sys.argv[1] == 'bad')\n"
    )

    def followed(name: str) -> tuple[int, list[str]]:
        capsys.readouterr()
        # A job with learners that fail is restarted three times first.
        words = ("--image", python_image, "--name", name, "--namespace", namespace, "--follow")
        code = run(["submit", "brief.py", *words, "--", name])
        return code, capsys.readouterr().out.splitlines()

    assert followed("good") == (
        ExitCode.DONE,
        ["dijob/good submitted", "good-learner-0  line of good"],
    )
    code, lines = followed("bad")
    assert code == ExitCode.ENDED_OTHERWISE
    assert lines[:2] == ["dijob/bad submitted", "bad-learner-0  line of bad"]
