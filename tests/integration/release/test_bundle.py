"""What is released can be checked: what is in it, where it comes from, and that it is whole."""

from __future__ import annotations

import json
import re
import subprocess
import tarfile
from pathlib import Path

import pytest

from di_cluster.cluster import Cluster
from tools.release import bundle
from tools.release.requirements import RELEASED, requirements
from tools.release.sbom import sboms
from tools.release.version import ROOT, present

REVISION = "0123456789" * 4
URL = "https://downloads.example.org/di"
VERSION = present(ROOT)
HELM = Cluster().binary("helm")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("release") / "out"
    bundle.bundle(ROOT, directory, revision=REVISION, url=URL, helm=HELM)
    return directory


def files(directory: Path) -> list[str]:
    return sorted(str(file.relative_to(directory)) for file in directory.rglob("*.*"))


def test_every_file_is_in_the_checksums(made: Path) -> None:
    subprocess.run(
        ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=made, check=True
    )
    lines = (made / "SHA256SUMS").read_text().splitlines()
    assert sorted(line.split("  ")[1] for line in lines) == files(made)


@pytest.mark.proves("di-engine.md#its-own-installer/the-services")
def test_the_launcher_of_di_engine_finds_the_objects_of_the_chart(made: Path) -> None:
    text = (made / "deploy/di-orchestrator.yaml").read_text()
    assert (made / "config/di-manager.yaml").read_text() == text
    assert "di-webhook" in text


def test_the_provenance_names_the_commit_the_locks_and_the_files(made: Path) -> None:
    said = json.loads((made / "provenance.json").read_text())
    named = [subject["name"] for subject in said["subject"]]
    assert named == [name for name in files(made) if name != "provenance.json"]
    assert f"di-orchestrator-{VERSION}.tgz" in named
    definition = said["predicate"]["buildDefinition"]
    assert definition["externalParameters"] == {"version": VERSION}
    source, *locks = definition["resolvedDependencies"]
    assert source["digest"] == {"gitCommit": REVISION}
    assert [lock["name"] for lock in locks] == ["uv.lock"]
    sums = (made / "SHA256SUMS").read_text()
    assert all(each["digest"]["sha256"] in sums for each in said["subject"])


def test_the_same_sources_make_the_same_bytes(made: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    bundle.bundle(ROOT, again, revision=REVISION, url=URL, helm=HELM)
    assert (again / "SHA256SUMS").read_text() == (made / "SHA256SUMS").read_text()


def test_the_chart_is_packed_as_helm_does(made: Path) -> None:
    chart = ROOT / bundle.CHART
    with tarfile.open(made / f"di-orchestrator-{VERSION}.tgz") as archive:
        names = archive.getnames()
        assert names[0] == "di-orchestrator/Chart.yaml"
        assert {name.partition("/")[2] for name in names} == {
            str(file.relative_to(chart))
            for file in chart.rglob("*")
            if file.is_file() and not file.name.startswith(".")
        }
        for name in names:
            packed = archive.extractfile(name)
            assert packed is not None
            assert packed.read() == (chart.parent / name).read_bytes()


def test_the_plugin_contains_the_command_and_our_packages(made: Path) -> None:
    with tarfile.open(made / f"kubectl-di-{VERSION}.tar.gz") as archive:
        names = archive.getnames()
    wheels = [name for name in names if name.startswith("wheels/")]
    assert wheels == [
        f"wheels/di_{name}-{VERSION}-py3-none-any.whl"
        for name in ("api", "cli", "kube", "orchestrator")
    ]
    assert f"kubectl-di-{VERSION}.tar.gz" in (made / "krew/di.yaml").read_text()


def test_a_bill_has_every_package_of_the_lock_and_ours() -> None:
    bills = sboms(ROOT)
    assert set(bills) == set(RELEASED)
    for name, bill in bills.items():
        listed = {f"{each['name']}=={each['version']}": each for each in bill["components"]}
        needed = re.findall(r"(?m)^(\S+==[^\s;\\]+)", requirements(ROOT, name))
        assert [each for each in needed if each not in listed] == []
        for each in needed:
            hashes = [
                reference["hashes"]
                for reference in listed[each]["externalReferences"]
                if reference["type"] == "distribution"
            ]
            assert hashes, each
            assert all(hashes), each
        own = bill["metadata"]["component"]
        assert (own["name"], own["version"]) == (name, VERSION)
    bills_of_operator = bills["di-operator"]["components"]
    assert f"di-certs=={VERSION}" in {
        f"{each['name']}=={each['version']}" for each in bills_of_operator
    }


def test_an_uncommitted_tree_is_not_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    commit = ["git", *identity, "commit", "-qm", "a", "--allow-empty"]
    subprocess.run(commit, cwd=tmp_path, check=True)
    (tmp_path / "new").touch()
    monkeypatch.setattr(bundle, "ROOT", tmp_path)
    assert bundle.main([str(tmp_path / "out"), URL]) == 1
    assert "not committed" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
