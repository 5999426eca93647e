"""References of locally built images and images made by hand."""

from __future__ import annotations

import pytest

from di_cluster import rootfs
from di_cluster.archive import ImageConfig
from di_cluster.current import image_loader
from di_cluster.images import full_reference


@pytest.mark.parametrize(
    ("tag", "reference"),
    [
        ("di-server:dev", "localhost/di-server:dev"),
        ("di-server", "localhost/di-server:latest"),
        ("team/di-server:dev", "localhost/team/di-server:dev"),
        ("localhost/di-server:dev", "localhost/di-server:dev"),
        ("localhost:5000/di-server", "localhost:5000/di-server:latest"),
        ("registry.example.com/di-server:1.0", "registry.example.com/di-server:1.0"),
    ],
)
def test_an_image_without_a_registry_is_local(tag: str, reference: str) -> None:
    assert full_reference(tag) == reference


def test_an_image_configuration_says_only_what_is_set() -> None:
    assert ImageConfig(command=("sh", "-c")).body() == {"Cmd": ["sh", "-c"]}


@pytest.mark.parametrize(
    ("context", "loader"),
    [("kind-dev", "kind"), ("minikube", "minikube"), ("production", ""), ("", "")],
)
def test_the_current_context_tells_how_images_get_there(context: str, loader: str) -> None:
    assert image_loader(context) == loader


def test_another_recipe_makes_another_base_image(monkeypatch: pytest.MonkeyPatch) -> None:
    before = rootfs.recipe()
    assert rootfs.recipe() == before
    monkeypatch.setattr(rootfs, "PACKAGES", (*rootfs.PACKAGES, "perl"))
    assert rootfs.recipe() != before
