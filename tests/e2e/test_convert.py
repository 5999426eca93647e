"""Manifests of other operators, converted, run on a real node to their end."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from di_cli.exit_codes import ExitCode
from di_cli.main import run
from tests.e2e.kubectl import Kubectl
from tests.unit.cli.convert.smallest import RAY, RAY_CONFIG_MAP, SMALLEST


@pytest.mark.usefixtures("release", "shell")
@pytest.mark.proves(
    "from-other-operators.md#from-other-operators/pytorchjob",
    "from-other-operators.md#from-other-operators/trainjob",
    "from-other-operators.md#from-other-operators/rayjob",
    "from-other-operators.md#from-other-operators/job",
    "from-other-operators.md#from-other-operators/jobset",
    "from-other-operators.md#from-other-operators/dijob",
)
def test_a_converted_job_of_each_kind_succeeds(
    kubectl: Kubectl,
    *,
    namespace: str,
    python_image: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"ray": RAY}}
    kubectl.apply({**config_map, "metadata": {"name": RAY_CONFIG_MAP, "namespace": namespace}})
    before, after = tmp_path / "before.yaml", tmp_path / "after.yaml"
    made = [make(python_image, ["python3", "--version"]) for make in SMALLEST.values()]
    before.write_text(yaml.safe_dump_all(made))
    assert run(["convert", "-f", str(before)]) == ExitCode.DONE
    after.write_text(capsys.readouterr().out)
    in_namespace = ("--namespace", namespace)
    assert run(["submit", str(after), *in_namespace]) == ExitCode.DONE
    names = [each["metadata"]["name"] for each in made]
    for name in names:
        code = run(["wait", name, "--for", "phase=Succeeded", "--timeout", "300", *in_namespace])
        assert code == ExitCode.DONE, capsys.readouterr().err
    phases = {
        name: kubectl.get("dijob", name, namespace=namespace)["status"].get("restarts", 0)
        for name in names
    }
    assert phases == dict.fromkeys(names, 0)
