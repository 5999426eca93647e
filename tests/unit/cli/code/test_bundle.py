"""Bundles: the same files give the same bytes, and a pod's rules hold here already."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from di_cli.code import bundle as bundles
from di_cli.code.bundle import contents, hash_of, listed, listing, make
from di_cli.code.files import File, packages
from di_cli.errors import CommandError
from di_unpack import program
from di_unpack.program import BadBundle, complete, unpack
from tests.unit.unpack.archives import hostile, packed

FILES = {"train.py": File(b"a"), "lib/run.sh": File(b"b", is_executable=True)}


def test_the_same_files_give_the_same_bytes() -> None:
    first, again = make(FILES), make(dict(reversed(FILES.items())))
    assert first == again
    assert first.sha256 == program.unpacked([first.packed], io.BytesIO())
    assert make({**FILES, "train.py": File(b"A")}).sha256 != first.sha256
    assert make({**FILES, "train.py": File(b"a", is_executable=True)}).sha256 != first.sha256


def test_a_pod_unpacks_what_was_bundled(tmp_path: Path) -> None:
    bundle = make({**FILES, **packages()})
    unpack([bundle.packed], bundle.sha256, str(tmp_path))
    assert (tmp_path / "train.py").read_bytes() == b"a"
    assert contents(bundle.packed) == {"train.py": b"a", "lib/run.sh": b"b"}


def test_the_packages_of_a_bundle_work_in_a_bare_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = make({**FILES, **packages()})
    # As in an image without any of them.
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    unpack([bundle.packed], bundle.sha256, str(tmp_path))
    complete(str(tmp_path))
    path = f"{tmp_path}:{tmp_path}/.di-packages"
    text = "import di_orchestrator, requests; print(requests.__file__, di_orchestrator.job())"
    done = subprocess.run(
        [sys.executable, "-S", "-c", text],
        env={"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(f"{tmp_path}/.di-packages/requests/")


@pytest.mark.proves("own-code.md#size")
def test_a_bundle_above_the_limit_names_the_largest_files(monkeypatch: pytest.MonkeyPatch) -> None:
    assert program.MOST_PACKED == 100 << 20
    monkeypatch.setattr(bundles, "MOST_PACKED", 8400 << 10)
    large = {"data/a.bin": File(os.urandom(8400 << 10)), "b.bin": File(os.urandom(2048))}
    with pytest.raises(CommandError) as refused:
        make({**FILES, **large, ".di-fallback/a": File(b"x")})
    what, *where = refused.value.lines()
    assert "KiB when compressed, and a bundle has 8400 KiB at most" in what
    assert where[:2] == ["  8400 KiB data/a.bin", "  2 KiB b.bin"]
    assert "  1 KiB compressed of di_orchestrator and what it imports" in where
    assert ".diignore" in where[-1]


def test_only_a_large_bundle_lists_its_largest_files(monkeypatch: pytest.MonkeyPatch) -> None:
    # A push must not compress the packages of this machine twice.
    assert not make(FILES).largest
    monkeypatch.setattr(bundles, "MOST_IN_PARTS", 0)
    assert make(FILES).largest == "1 KiB lib/run.sh\n1 KiB train.py"


def test_the_listing_of_a_bundle_has_the_files_of_the_user_and_their_hashes() -> None:
    packed_listing = listing(make({**FILES, ".di-fallback/a": File(b"x")}).packed)
    assert listed(packed_listing) == {"train.py": hash_of(b"a"), "lib/run.sh": hash_of(b"b")}
    for other in (b"text", packed(b"text"), packed(b"[]"), packed(b"[" * 100_000), b""):
        assert listed(other) == {}
    # Paths of the longest kind, as many as a bundle has, fit into a ConfigMap.
    names = {
        f"{number:0>255}/{'a' * 255}/{'b' * 255}/{'c' * 255}": File(b"") for number in range(10_000)
    }
    assert len(listing(make(names).packed)) < 1 << 20


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("Train.py", "have one place"),
        ("a\nb", "control character"),
        ("../a", "is absolute, or has an empty part"),
        ("/a", "is absolute, or has an empty part"),
        ("a" * 256, "longer than 255 bytes"),
        (".di-part/a", "is a place of this program"),
        ("train.py/a", "have one place"),
    ],
)
def test_names_that_a_pod_refuses_are_refused_before(name: str, what: str) -> None:
    with pytest.raises(CommandError) as refused:
        make({**FILES, name: File(b"x")})
    assert what in refused.value.where


def test_a_thousand_hostile_archives_are_refused_by_the_client() -> None:
    count = 0
    for _, plain in hostile(1000, seed=2):
        with pytest.raises(BadBundle):
            contents(packed(plain))
        count += 1
    assert count == 1000
