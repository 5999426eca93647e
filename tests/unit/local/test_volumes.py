"""Files of volumes are below their directory, whatever their path says."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from di_kube.resources import CONFIGMAPS, SECRETS
from di_local.api.objects import Objects
from di_local.api.refused import Refused
from di_local.pods.environment import Missing
from di_local.pods.mounts import Mounts
from di_local.pods.volumes import Volumes

OUTSIDE = ("/{}/out", "../out", "a/../../out", "a/../b", "..")


class Sources:
    """One ConfigMap and one Secret, of one name, and a token that is another each time."""

    def __init__(self) -> None:
        self.data = {"key": "text"}
        self.tokens = 0

    def config_map(self, _: str, name: str) -> Any:
        return {"data": self.data} if name == "a" else None

    def secret(self, _: str, name: str) -> Any:
        data = {"key": "dGV4dA=="}
        return {"data": data, "stringData": {"more": "plain"}} if name == "a" else None

    def token(self, _: Any) -> str:
        self.tokens += 1
        return f"token {self.tokens}"


def volumes(
    folder: Path,
    source: Any,
    sources: Sources | None = None,
    given: Mapping[str, Path] | None = None,
) -> Volumes:
    pod = {
        "metadata": {"namespace": "ns", "name": "p", "uid": "u"},
        "spec": {"volumes": [{"name": "v", **source}]},
    }
    return Volumes(
        pod,
        folder / "volumes",
        sources=sources or Sources(),
        given=given or {},
        replaced=str.upper,
    )


def everything(folder: Path) -> set[str]:
    return {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()}


CONTENTS: dict[str, tuple[Any, dict[str, str]]] = {
    "all of a ConfigMap": ({"configMap": {"name": "a"}}, {"key": "TEXT"}),
    # What addresses this machine has does not concern secrets.
    "all of a Secret": ({"secret": {"secretName": "a"}}, {"key": "text", "more": "plain"}),
    "a key of it": (
        {"secret": {"secretName": "a", "items": [{"key": "key", "path": "sub/k"}]}},
        {"sub/k": "text"},
    ),
    "a key that is missing and optional": (
        {"configMap": {"name": "a", "optional": True, "items": [{"key": "b", "path": "b"}]}},
        {},
    ),
    "a source that is missing and optional": (
        {"secret": {"secretName": "none", "optional": True}},
        {},
    ),
    "several sources": (
        {
            "projected": {
                "sources": [
                    {"secret": {"name": "a"}},
                    {"serviceAccountToken": {"path": "token"}},
                    {
                        "downwardAPI": {
                            "items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]
                        }
                    },
                ]
            }
        },
        {"key": "text", "more": "plain", "token": "token 1", "n": "p"},
    ),
    "an empty directory": ({"emptyDir": {}}, {}),
}


@pytest.mark.parametrize(("source", "files"), CONTENTS.values(), ids=CONTENTS)
def test_a_volume_has_the_files_of_its_sources(
    tmp_path: Path, source: Any, files: dict[str, str]
) -> None:
    found = volumes(tmp_path, source)
    for _ in range(2):  # a token stays the same
        found.fill()
        place = found.places["v"]
        texts = {
            str(path.relative_to(place)): path.read_text()
            for path in place.rglob("*")
            if path.is_file()
        }
        assert texts == files


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"configMap": {"name": "none"}}, "there is no configMap none"),
        ({"secret": {"secretName": "none"}}, "there is no secret none"),
        (
            {"configMap": {"name": "a", "items": [{"key": "b", "path": "b"}]}},
            "configMap a has no key b",
        ),
        ({"nfs": {"server": "s"}}, "a volume of nfs has no place on this machine"),
    ],
)
def test_a_volume_without_its_source_is_reported(tmp_path: Path, source: Any, message: str) -> None:
    with pytest.raises(Missing, match=message):
        volumes(tmp_path, source).fill()


def test_directories_of_the_machine_are_volumes_as_they_are(tmp_path: Path) -> None:
    source = {"hostPath": {"path": str(tmp_path / "host")}}
    assert volumes(tmp_path, source).places == {"v": tmp_path / "host"}
    given = {"v": tmp_path / "mine"}
    assert volumes(tmp_path, {"nfs": {}}, given=given).places == given
    assert everything(tmp_path) == set()


@pytest.mark.proves("local.md#what-is-as-in-a-cluster-and-what-is-not/paths-and-keys-of-volumes")
@pytest.mark.parametrize("path", OUTSIDE)
def test_no_file_of_a_volume_is_written_outside_of_it(tmp_path: Path, path: str) -> None:
    item = {"key": "key", "path": path.format(tmp_path)}
    for source in (
        {"configMap": {"name": "a", "items": [item]}},
        {"downwardAPI": {"items": [{**item, "fieldRef": {"fieldPath": "metadata.name"}}]}},
        {"projected": {"sources": [{"serviceAccountToken": item}]}},
    ):
        with pytest.raises(Missing, match="path"):
            volumes(tmp_path, source).fill()
    assert everything(tmp_path) == set()


def test_a_key_of_a_configmap_is_no_path(tmp_path: Path) -> None:
    sources = Sources()
    sources.data = {"../out": "text"}
    with pytest.raises(Missing):
        volumes(tmp_path, {"configMap": {"name": "a"}}, sources).fill()
    assert everything(tmp_path) == set()


def test_a_link_in_a_volume_leads_no_file_outside(tmp_path: Path) -> None:
    """A program in a container can make one, and the run writes as its user."""
    sources, outside = Sources(), tmp_path / "outside"
    outside.mkdir()
    item = {"key": "key", "path": "sub/file"}
    found = volumes(tmp_path, {"configMap": {"name": "a", "items": [item]}}, sources)
    found.fill()
    file = found.places["v"] / "sub" / "file"
    assert file.read_text() == "TEXT"
    file.unlink()
    file.parent.rmdir()
    file.parent.symlink_to(outside)
    sources.data = {"key": "other"}
    with pytest.raises(Missing, match="link"):
        found.fill()
    assert everything(outside) == set()
    file.parent.unlink()
    (found.places["v"] / "sub").mkdir()
    (found.places["v"] / "sub" / ".file.new").symlink_to(outside / "file")
    with pytest.raises(OSError, match="symbolic"):
        found.fill()
    assert everything(outside) == set()


def test_a_sub_path_stays_in_its_volume(tmp_path: Path) -> None:
    volume = tmp_path / "v"
    volume.mkdir()
    (volume / "link").symlink_to(tmp_path)
    (volume / "own").symlink_to(volume / "sub")

    def mounted(sub_path: str) -> Path:
        mount = {"name": "v", "mountPath": "/v", "subPath": sub_path}
        return Mounts([mount], {"v": volume}).places["/v"]

    assert mounted("sub") == volume / "sub"
    assert mounted("own") == volume / "own"
    for path in ("..", "a/../../b", "/etc", "link"):
        with pytest.raises(Missing):
            mounted(path)


@pytest.mark.parametrize("key", ["../a", "a/b", "..", ".", "..a", "", "a" * 254, "a b"])
def test_a_bad_key_is_refused_as_by_an_api_server(key: str) -> None:
    objects = Objects(now=lambda: datetime.now(UTC), admit=lambda job, _: job)
    metadata = {"name": "a", "namespace": "ns"}
    for resource in (CONFIGMAPS, SECRETS):
        with pytest.raises(Refused, match="is invalid: data") as refused:
            objects.create(resource, {"metadata": metadata, "data": {key: "eA=="}})
        assert refused.value.code == 422
        objects.create(resource, {"metadata": metadata, "data": {"a": "eA==", ".hidden": ""}})
        with pytest.raises(Refused, match="is invalid: data"):
            objects.replace(resource, "ns", "a", {"metadata": metadata, "data": {key: "eA=="}})


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("data", 1, r"data\[a\]: must be a string"),
        ("data", None, r"data\[a\]: must be a string"),
        ("binaryData", "!", r"binaryData\[a\]: must be base64"),
        ("binaryData", b"x", r"binaryData\[a\]: must be a string"),
        ("stringData", {}, r"stringData\[a\]: must be a string"),
    ],
)
def test_a_bad_value_is_refused_as_by_an_api_server(field: str, value: object, why: str) -> None:
    objects = Objects(now=lambda: datetime.now(UTC), admit=lambda job, _: job)
    metadata = {"name": "a", "namespace": "ns"}
    for resource in (CONFIGMAPS, SECRETS):
        with pytest.raises(Refused, match=why):
            objects.create(resource, {"metadata": metadata, field: {"a": value}})
        with pytest.raises(Refused, match=f"{field}: must be an object"):
            objects.create(resource, {"metadata": metadata, field: ["a"]})
    with pytest.raises(Refused, match=r"data\[a\]: must be base64"):
        objects.create(SECRETS, {"metadata": metadata, "data": {"a": "!!"}})


def test_binary_data_of_a_config_map_are_files(tmp_path: Path) -> None:
    class Binary(Sources):
        @override
        def config_map(self, _: str, name: str) -> Any:
            return {"data": {"key": "text"}, "binaryData": {"raw": "/wA="}}

    volumes(tmp_path, {"configMap": {"name": "a"}}, Binary()).fill()
    found = {each.name: each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()}
    assert found == {"key": b"TEXT", "raw": b"\xff\x00"}
