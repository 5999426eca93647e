"""The manifests and commands of the page about own images."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from di_api.base_template import with_base
from di_api.defaults import with_defaults
from di_api.validation import load_leniently, validate_job
from di_operator.builders.code import with_code
from examples.demo.manifests import ROOT

TEXT = (ROOT / "docs/how-to/own-images.md").read_text()


def job(heading: str) -> dict[str, Any]:
    """The manifest of a section, as the webhook stores it."""
    section = TEXT.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    (text,) = re.findall(r"^```yaml\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    found = yaml.safe_load(text)
    spec = with_defaults(with_base(found["spec"]))
    assert validate_job({**found, "spec": spec}) == []
    return dict(spec)


def pod(spec: dict[str, Any]) -> dict[str, Any]:
    return dict(spec["tasks"][0]["template"]["spec"])


@pytest.mark.proves("own-images.md#a-dockerfile-of-five-lines")
def test_the_dockerfile_has_five_lines_and_begins_with_the_default_image() -> None:
    (text,) = re.findall(r"^```dockerfile\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    lines = text.splitlines()
    assert (len(lines), lines[0]) == (5, "FROM python:3.13-slim")


@pytest.mark.proves("own-images.md#a-private-registry")
def test_a_job_can_name_the_secret_of_its_registry_once() -> None:
    assert pod(job("A private registry"))["imagePullSecrets"] == [{"name": "regcred"}]


@pytest.mark.proves("own-images.md#private-git")
def test_the_index_of_a_secret_reaches_the_container_that_runs_pip() -> None:
    spec = job("Private git")
    body = with_code({"spec": pod(spec)}, load_leniently(spec).code)
    (unpacking,) = body["spec"]["initContainers"]
    (variable,) = (each for each in unpacking["env"] if each["name"] == "PIP_INDEX_URL")
    assert variable["valueFrom"] == {"secretKeyRef": {"name": "pip", "key": "url"}}


@pytest.mark.proves("own-images.md#data-on-a-volume")
def test_every_task_mounts_the_data() -> None:
    spec = job("Data on a volume")
    (container,) = pod(spec)["containers"]
    assert container["volumeMounts"] == [{"name": "data", "mountPath": "/data", "readOnly": True}]
    assert spec["volumes"][0]["persistentVolumeClaim"]["claimName"] == "datasets"
