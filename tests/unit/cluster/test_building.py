"""What is built of programs that are missing, and what goes on beside it."""

from __future__ import annotations

import io
import json
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from di_cluster.builds import gobuild
from di_cluster.builds.binaries import COMPONENTS, Binaries
from di_cluster.builds.gobuild import Builder
from di_cluster.reporter import Reporter
from tests.waiting import wait_until

GO = """#!/bin/sh
case "$1" in
  version) echo go version go1.99.0 linux/amd64;;
  list) echo a; echo b; echo c;;
  install) echo a; read _ < "{gate}";;
esac
"""


def _builder(tmp_path: Path, stream: io.StringIO) -> Builder:
    """A builder of a module `thing`, whose build ends when the test writes into the gate."""
    for module in ("thing", "other"):
        (tmp_path / module).mkdir()
        (tmp_path / module / "go.mod").write_text(f"module {module}\n\ngo 1.26\n")
    os.mkfifo(tmp_path / "gate")
    go = tmp_path / "go"
    go.write_text(GO.format(gate=tmp_path / "gate"))
    go.chmod(0o755)
    return Builder(
        modules=tmp_path,
        cache=tmp_path / "cache",
        search_path=str(tmp_path),
        reporter=Reporter(stream),
    )


@pytest.mark.parametrize(("more", "in_all"), [([], ""), (["other"], " (1 of 6 in all)")])
def test_a_builds_progress_counts_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str], in_all: str
) -> None:
    monkeypatch.setattr(gobuild, "_PROGRESS_SECONDS", 0.01)
    stream = io.StringIO()
    builder = _builder(tmp_path, stream)
    builder.fetch(["thing", "without-sources"])
    builder.fetch(["thing", *more])
    work = threading.Thread(target=builder.build, args=("thing",), kwargs={"stamps": {}})
    work.start()
    try:
        wait_until(
            lambda: f"  thing: 1 of 3 packages compiled{in_all}, 0 modules" in stream.getvalue(),
            what="a total",
        )
    finally:
        (tmp_path / "gate").write_text("go\n")
        work.join()


class _Told:
    """A builder that notes what it is asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[Any] = []

    def fetch(self, components: list[str]) -> None:
        self.asked.append(list(components))

    def build(self, component: str, *, stamps: Any) -> Path:
        del stamps
        self.asked.append(component)
        found = next(each for each in COMPONENTS if each.name == component)
        built = self.folder / component
        built.mkdir()
        for program in found.programs:
            (built / found.built_name(program)).write_text("")
        return built


def test_missing_sources_are_fetched_during_the_first_build(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    told, stream = _Told(tmp_path), io.StringIO()
    settings: Any = SimpleNamespace(cache=tmp_path, assets=None, search_path="")
    builder: Any = told
    binaries = Binaries(settings=settings, reporter=Reporter(stream), builder=builder)
    binaries.ensure(["etcd", "kubectl", "kubelet", "helm"])
    assert told.asked == [["etcd", "kubernetes", "helm"], "etcd", "kubernetes", "helm"]
    assert "to be built, one after another: etcd, kubernetes, helm" in stream.getvalue()
    assert "kubectl" in json.loads((binaries.path("kubectl").parent / "checksums.json").read_text())
    binaries.ensure(["etcd", "kubectl"])
    assert len(told.asked) == 5
    assert told.asked[-1] == []
    # What is wanted next is not built yet.
    binaries.ensure(["etcd"], then=["coredns"])
    assert told.asked[5:] == [["coredns"]]
