"""The volumes of a pod as directories of this machine."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from di_local.api.paths import bad_path
from di_local.pods.environment import Missing, field_value

Object = Mapping[str, Any]


class Sources(Protocol):
    """Sources of the contents of volumes."""

    def config_map(self, namespace: str, name: str) -> Object | None:
        """Return the ConfigMap, if it exists."""
        ...

    def secret(self, namespace: str, name: str) -> Object | None:
        """Return the Secret, if it exists."""
        ...

    def token(self, pod: Object) -> str:
        """Return the pod's token for di-server."""
        ...


class Volumes:
    """The volumes of one pod, below a separate directory.

    Args:
        given: the user's directories in place of volumes, by the volume's name.
        replaced: inserts the addresses of this machine into files.

    Raises:
        Missing: the name of a volume is a path to another place.
    """

    def __init__(
        self,
        pod: Object,
        directory: Path,
        *,
        sources: Sources,
        given: Mapping[str, Path],
        replaced: Callable[[str], str],
    ) -> None:
        self._pod = pod
        self._sources = sources
        self._replaced = replaced
        self._token: str | None = None
        self._filled: list[tuple[Path, Object]] = []
        self.places: dict[str, Path] = {}
        """Places by the name of the volume."""
        for volume in pod["spec"].get("volumes") or ():
            name = volume["name"]
            if name in given:
                self.places[name] = given[name]
            elif "hostPath" in volume:
                self.places[name] = Path(volume["hostPath"]["path"])
            else:
                self.places[name] = inside(directory, name)
                self.places[name].mkdir(parents=True, exist_ok=True)
                if "emptyDir" not in volume:
                    self._filled.append((self.places[name], volume))

    def fill(self) -> None:
        """Write the files; call it again when their sources have changed.

        Raises:
            Missing: a source does not exist, is not supported here, or leads out of its volume.
            OSError: the files cannot be written.
        """
        for place, volume in self._filled:
            for path, content in self._files(volume):
                _write(inside(place, path), content)

    def _files(self, volume: Object) -> Iterator[tuple[str, bytes]]:
        for source in (volume.get("projected") or {}).get("sources") or [volume]:
            yield from self._source(source)

    def _source(self, source: Object) -> Iterator[tuple[str, bytes]]:
        namespace = self._pod["metadata"]["namespace"]
        if reference := source.get("configMap"):
            name = reference.get("name", "")
            found = self._sources.config_map(namespace, name)
            yield from _items(reference, self._texts(found), f"configMap {name}")
        elif reference := source.get("secret"):
            name = reference.get("secretName") or reference.get("name", "")
            found = self._sources.secret(namespace, name)
            yield from _items(reference, secret_data(found), f"secret {name}")
        elif reference := source.get("serviceAccountToken"):
            self._token = self._token or self._sources.token(self._pod)
            yield reference["path"], self._token.encode()
        elif reference := source.get("downwardAPI"):
            for item in reference.get("items") or ():
                path = (item.get("fieldRef") or {}).get("fieldPath", "")
                yield item["path"], field_value(self._pod, path).encode()
        else:
            kinds = ", ".join(key for key in source if key != "name")
            raise Missing(f"a volume of {kinds} has no place on this machine")

    def _texts(self, configmap: Object | None) -> dict[str, bytes] | None:
        if configmap is None:
            return None
        data = configmap.get("data") or {}
        texts = {key: self._replaced(text).encode() for key, text in data.items()}
        return texts | _decoded(configmap.get("binaryData"))


def secret_data(secret: Object | None) -> dict[str, bytes] | None:
    """Return the values of a Secret; None without one."""
    if secret is None:
        return None
    texts = secret.get("stringData") or {}
    return _decoded(secret.get("data")) | {key: text.encode() for key, text in texts.items()}


def _decoded(data: Mapping[str, str] | None) -> dict[str, bytes]:
    return {key: base64.b64decode(text) for key, text in (data or {}).items()}


def _items(
    reference: Object, data: Mapping[str, bytes] | None, what: str
) -> Iterator[tuple[str, bytes]]:
    if data is None:
        if reference.get("optional"):
            return
        raise Missing(f"there is no {what}")
    chosen = reference.get("items")
    if chosen is None:
        yield from data.items()
        return
    for item in chosen:
        if item["key"] in data:
            yield item["path"], data[item["key"]]
        elif not reference.get("optional"):
            raise Missing(f"{what} has no key {item['key']}")


def inside(place: Path, path: str) -> Path:
    """Return the path below a directory.

    Raises:
        Missing: it would be outside, by its parts or by a link that a program has created.
    """
    found = place / path
    if why := bad_path(path):
        raise Missing(f"path {path!r} {why}")
    if not found.resolve().is_relative_to(place.resolve()):
        raise Missing(f"path {path!r} leads out of its volume by a link")
    return found


def _write(path: Path, content: bytes) -> None:
    """Write a file in one step: readers see either the old or the new content."""
    if path.exists() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    new.replace(path)
