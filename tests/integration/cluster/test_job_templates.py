"""Templates of jobs in a real API server: what is admitted, and a job that is made with one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from di_cli.exit_codes import ExitCode
from di_cli.main import run
from di_kube.config import KubeConfig
from di_kube.errors import ApiError
from di_kube.resources import CLUSTER_JOB_TEMPLATES, DIJOBS, JOB_TEMPLATES
from di_kube.sync import SyncKubeClient
from di_orchestrator import jobs
from tests.integration.conftest import ApiServer

pytestmark = pytest.mark.usefixtures("crd", "job_templates")
Object = dict[str, Any]


def body(kind: str = "DIJobTemplate", **job: Any) -> Object:
    version = "diengine.opendilab.org/v2alpha1"
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "gpu"},
        "spec": {"description": "nodes with a GPU", "job": job},
    }


PAGE = Path(__file__).resolve().parents[3] / "docs/how-to/job-templates.md"
POD = {
    "spec": {
        "containers": [{"name": "di-container", "image": "torch:2"}],
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
    }
}


@pytest.mark.proves("job-templates.md#what-is-checked")
@pytest.mark.parametrize(
    ("job", "message"),
    [
        ({"priorty": "high"}, 'unknown field "spec.job.priorty"'),
        ({"priority": "low"}, "spec.job.priority"),
        ({"backoffLimit": -1}, "spec.job.backoffLimit"),
        ({"backoffLimit": "many"}, "spec.job.backoffLimit"),
        ({"tasks": [{"type": "teacher"}]}, "spec.job.tasks[0].type"),
        ({"tasks": [{"type": "learner", "replica": 1}]}, "spec.job.tasks[0].replica"),
        ({"code": {}}, 'unknown field "spec.job.code"'),
        ({"coordinated": {}}, 'unknown field "spec.job.coordinated"'),
    ],
)
def test_wrong_fields_of_a_template_are_refused(
    kube_config: KubeConfig, namespace: str, job: Object, message: str
) -> None:
    with SyncKubeClient(config=kube_config) as client:
        with pytest.raises(ApiError) as refused:
            client.create(JOB_TEMPLATES, body(**job), namespace, strict=True)
        assert message in str(refused.value.message)
        with pytest.raises(ApiError) as refused:
            client.create(
                CLUSTER_JOB_TEMPLATES,
                body("ClusterDIJobTemplate", **job),
                dry_run=True,
                strict=True,
            )
        assert message in str(refused.value.message)


@pytest.mark.proves("job-templates.md#make-one")
def test_the_documented_template_is_admitted(kube_config: KubeConfig) -> None:
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    with SyncKubeClient(config=kube_config) as client:
        made = client.create(CLUSTER_JOB_TEMPLATES, yaml.safe_load(text), dry_run=True, strict=True)
    assert made["spec"] == yaml.safe_load(text)["spec"]


@pytest.mark.proves("job-templates.md#two-kinds/clusterdijobtemplate")
def test_a_job_keeps_what_it_got_when_its_template_changes(
    api_server: ApiServer,
    *,
    kube_config: KubeConfig,
    namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(api_server.kubeconfig))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print(1)\n")
    with SyncKubeClient(config=kube_config) as client:
        part = {"template": POD, "tasks": [{"type": "learner", "backoffLimit": 5}]}
        client.create(CLUSTER_JOB_TEMPLATES, body("ClusterDIJobTemplate", **part), strict=True)
        try:
            words = ("submit", "train.py", "--template", "gpu", "--namespace", namespace)
            assert run(words) == ExitCode.DONE, capsys.readouterr().err
            made = client.get(DIJOBS, "train", namespace)
            patch = {"spec": {"job": {"tasks": None}}}
            client.patch(CLUSTER_JOB_TEMPLATES, "gpu", patch)
            again = client.get(DIJOBS, "train", namespace)
            other = jobs.submit("train.py", name="two", template="gpu", namespace=namespace)
            (second,) = other.manifest["spec"]["tasks"]
            assert "backoffLimit" not in second
        finally:
            client.delete(CLUSTER_JOB_TEMPLATES, "gpu")
    (learner,) = made["spec"]["tasks"]
    pod = learner["template"]["spec"]
    assert learner["backoffLimit"] == 5
    assert pod["containers"][0]["image"] == "torch:2"
    assert pod["tolerations"] == [{"key": "gpu", "operator": "Exists"}]
    assert made["metadata"]["annotations"]["diengine/template"] == "ClusterDIJobTemplate/gpu"
    assert again["spec"] == made["spec"]
