"""`kubectl di` as krew installs it: unpacked, linked, and ready after its first use."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from tools.release import krew, kubectl_di
from tools.release.provenance import sha256
from tools.release.version import ROOT, present

URL = "https://downloads.example.org/di"
PROJECT = """\
[project]
name = "di-cli"
version = "1.0.0"
[project.scripts]
kubectl-di = "di_cli:main"
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[tool.hatch.build.targets.wheel]
packages = ["di_cli"]
"""


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive whose command prints its arguments and has no dependencies."""
    folder = tmp_path_factory.mktemp("krew")
    (folder / "pyproject.toml").write_text(PROJECT)
    (folder / "di_cli").mkdir()
    (folder / "di_cli" / "__init__.py").write_text(
        "import sys\n\n\ndef main():\n    print(sys.argv[1:])\n"
    )
    hatchling = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    subprocess.run(hatchling, cwd=folder, check=True, capture_output=True)
    (folder / "tools/release").mkdir(parents=True)
    for name in ("LICENSE", "tools/release/kubectl_di.py"):
        (folder / name).write_bytes((ROOT / name).read_bytes())
    wheels = list((folder / "dist").glob("*.whl"))
    return krew.archive(folder, folder, version="1.0.0", wheels=wheels, needed="# nothing\n")


def installed(packed: Path, folder: Path) -> Path:
    """The link that krew makes."""
    store = folder / "store"
    store.mkdir()
    # tarfile's filters came with Python 3.11.4.
    subprocess.run(["tar", "--extract", "--file", packed, "--directory", store], check=True)
    link = folder / "kubectl-di"
    link.symlink_to(store / "kubectl-di")
    return link


def test_the_plugin_installs_itself_at_its_first_use(packed: Path, tmp_path: Path) -> None:
    link = installed(packed, tmp_path)
    said = [
        subprocess.run(
            [link, "why", "a b"],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
            env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(tmp_path)},
        )
        for _ in range(2)
    ]
    assert [each.stdout for each in said] == ["['why', 'a b']\n"] * 2
    assert "kubectl di: installing what it needs, once\n" in said[0].stderr
    assert said[1].stderr == ""


def test_a_failed_installation_is_reported_and_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "tools.release.kubectl_di.venv.create", lambda folder, **_: folder.mkdir(exist_ok=True)
    )  # without pip
    for _ in range(2):
        with pytest.raises(SystemExit, match=r"(?s)bin/pip.*try: again"):
            kubectl_di.install(tmp_path / "env")
        assert not (tmp_path / "env" / ".ready").exists()


def test_the_manifest_describes_the_archive(packed: Path) -> None:
    found = yaml.safe_load(krew.manifest(packed, version=present(ROOT), url=URL))
    assert (found["kind"], found["metadata"]["name"]) == ("Plugin", "di")
    spec = found["spec"]
    assert spec["version"] == f"v{present(ROOT)}"
    # krew's own limit.
    assert len(spec["shortDescription"]) < 50
    (platform,) = spec["platforms"]
    assert platform["uri"] == f"{URL}/{packed.name}"
    assert platform["sha256"] == sha256(packed)
    with tarfile.open(packed) as archive:
        names = archive.getnames()
        assert archive.getmember(platform["bin"]).mode & 0o111
    assert {"LICENSE", "requirements.lock"} < set(names)
    assert sum(name.startswith("wheels/") for name in names) == 1
