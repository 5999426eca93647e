"""Chart and images go into a registry under the names that the chart itself has for them."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml

from di_cluster.errors import CommandFailed
from di_cluster.images import Image
from release.bundle import pack_chart
from release.push import push
from release.version import present
from tests.chart.chart import CHART, Chart
from tests.fakes.registry import registry

VERSION = present(CHART.parents[1])


class Builder:
    """Notes what is pushed, and by what."""

    def __init__(self, helm: Path) -> None:
        self._helm = helm
        self.pushed: dict[str, tuple[Image, bool]] = {}

    def binary(self, program: str) -> Path:
        assert program == "helm"
        return self._helm

    def push_image(self, image: Image, destination: str, *, plain: bool) -> None:
        self.pushed[destination] = image, plain


def images(*services: str) -> dict[str, Image]:
    return {each: Image(reference=f"localhost/di-{each}", image_id=each) for each in services}


def test_a_chart_that_was_pushed_can_be_pulled_and_its_images_are_those_pushed(
    chart: Chart, tmp_path: Path
) -> None:
    packed = pack_chart(CHART, tmp_path / f"di-orchestrator-{VERSION}.tgz")
    builder = Builder(chart.helm)
    with registry() as there:
        name = f"{there.address}/team"
        said = push(
            builder,
            images("webhook", "operator", "server"),
            packed,
            registry=name,
            version=VERSION,
        )
        pulled = ["pull", *said[-1].split(), "--plain-http", "--untar", "--untardir", str(tmp_path)]
        subprocess.run([chart.helm, *pulled], check=True, capture_output=True, timeout=60)
    assert said[:-1] == list(builder.pushed)
    assert all(plain for _, plain in builder.pushed.values())
    again = Chart(helm=chart.helm, folder=tmp_path / "di-orchestrator")
    pods = again.render(f"imageRegistry={name}").pods()
    used = {
        each["spec"]["containers"][0]["image"] for key, each in pods.items() if "test" not in key
    }
    assert set(builder.pushed) <= used
    with tarfile.open(packed) as archive:
        entry = archive.extractfile("di-orchestrator/Chart.yaml")
        assert entry is not None
        assert yaml.safe_load(entry.read())["version"] == VERSION


def test_a_registry_that_is_not_there_is_told(chart: Chart, tmp_path: Path) -> None:
    packed = pack_chart(CHART, tmp_path / "di-orchestrator.tgz")
    with registry() as gone:
        address = gone.address
    with pytest.raises(CommandFailed, match="connection refused"):
        push(Builder(chart.helm), {}, packed, registry=address, version=VERSION)
