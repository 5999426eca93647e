"""Which Debian packages a base image gets from the list beside a Dockerfile."""

from __future__ import annotations

from pathlib import Path

import pytest

from di_cluster.builds.images import base_packages
from di_cluster.builds.rootfs import parse_packages, recipe
from di_cluster.errors import ClusterError


def test_the_list_has_a_name_on_each_line_and_comments() -> None:
    text = "# For linear algebra.\n\npython3-torch\n  libstdc++6 # with plus signs\n"
    assert parse_packages(text) == ("libstdc++6", "python3-torch")


def test_order_and_repetition_do_not_change_the_base() -> None:
    first = parse_packages("python3-venv\npython3-torch\n")
    second = parse_packages("python3-torch\npython3-venv\npython3-torch\n")
    assert recipe(first) == recipe(second)
    assert recipe(parse_packages("# nothing\n")) == recipe()
    assert len({recipe(), recipe(("python3-torch",)), recipe(("python3-numpy",))}) == 3


@pytest.mark.parametrize(
    "line", ["--download-only", "-o=Dpkg::x=y", "two names", "x", "torch=1.13", "Torch", "../a.deb"]
)
def test_a_bad_package_line_is_refused_with_its_number(line: str) -> None:
    with pytest.raises(ClusterError, match=r"^line 2: .* is not the name of a Debian package$"):
        parse_packages(f"python3-torch\n{line}\n")


def test_the_list_lies_beside_the_dockerfile(tmp_path: Path) -> None:
    (tmp_path / "base-packages.txt").write_text("python3-torch\n")
    assert base_packages(tmp_path / "Dockerfile") == ("python3-torch",)
    assert base_packages(tmp_path / "other" / "Dockerfile") == ()


def test_a_bad_list_is_named(tmp_path: Path) -> None:
    listing = tmp_path / "base-packages.txt"
    listing.write_text("a b\n")
    with pytest.raises(ClusterError, match=f"^{listing}: line 1: 'a b' is not"):
        base_packages(tmp_path / "Dockerfile")
