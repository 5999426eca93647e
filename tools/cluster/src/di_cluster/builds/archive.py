"""Images made without a build tool: a docker-archive is a tar of layers and JSON.

`docker load`, `ctr images import` and `buildah pull docker-archive:` all read it. The same input
gives the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from di_cluster.commands import run
from di_cluster.nodes.node_config import PAUSE_IMAGE

TEST_IMAGE = "localhost/busybox:1"
_EPOCH = "1970-01-01T00:00:00Z"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_USERS = b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"
_GROUPS = b"root:x:0:\nnobody:x:65534:\n"
_FOLDERS = {"bin": 0o755, "etc": 0o755, "tmp": 0o1777, "root": 0o700} | dict.fromkeys(
    ("proc", "sys", "dev"), 0o755
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageConfig:
    """How an image's process starts."""

    environment: tuple[str, ...] = ()
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()

    def body(self) -> dict[str, Any]:
        values = {
            "Env": self.environment,
            "Entrypoint": self.entrypoint,
            "Cmd": self.command,
        }
        return {key: list(value) for key, value in values.items() if value}


def write_archive(path: Path, *, layer: Path, images: Mapping[str, ImageConfig]) -> dict[str, str]:
    """Write a docker-archive of images that share one layer.

    Args:
        path: the archive.
        layer: a tar of the root file system.
        images: reference -> configuration.

    Returns:
        The image id (hexadecimal, as buildah and containerd give it) of each reference.
    """
    with layer.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    manifest, ids = [], {}
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    with tarfile.open(temporary, "w", format=tarfile.PAX_FORMAT) as archive:
        with layer.open("rb") as file:
            archive.addfile(_entry(f"{digest}.tar", size=layer.stat().st_size), file)
        for reference, config in images.items():
            body = json.dumps(
                {
                    "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
                    "os": "linux",
                    "created": _EPOCH,
                    "config": config.body(),
                    "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
                    "history": [{"created": _EPOCH, "created_by": "di-cluster"}],
                }
            ).encode()
            ids[reference] = hashlib.sha256(body).hexdigest()
            name = f"{ids[reference]}.json"
            archive.addfile(_entry(name, size=len(body)), io.BytesIO(body))
            manifest.append({"Config": name, "RepoTags": [reference], "Layers": [f"{digest}.tar"]})
        listing = json.dumps(manifest).encode()
        archive.addfile(_entry("manifest.json", size=len(listing)), io.BytesIO(listing))
    temporary.replace(path)
    return ids


def busybox_layer(busybox: Path) -> bytes:
    """The root file system (a tar) of a statically linked busybox and links to it."""
    applets = run([busybox, "--list"]).split()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as layer:
        for name, mode in _FOLDERS.items():
            layer.addfile(_entry(name, mode=mode, kind=tarfile.DIRTYPE))
        for name, content, mode in (
            ("bin/busybox", busybox.read_bytes(), 0o755),
            ("etc/passwd", _USERS, 0o644),
            ("etc/group", _GROUPS, 0o644),
        ):
            layer.addfile(_entry(name, size=len(content), mode=mode), io.BytesIO(content))
        for applet in applets:
            if applet != "busybox":
                link = _entry(f"bin/{applet}", mode=0o777, kind=tarfile.SYMTYPE)
                link.linkname = "busybox"
                layer.addfile(link)
    return buffer.getvalue()


def write_node_images(path: Path, *, busybox: Path) -> dict[str, str]:
    """Write the archive of the images that every node has: the pause image and a test image."""
    path.parent.mkdir(parents=True, exist_ok=True)
    layer = path.with_suffix(".layer")
    layer.write_bytes(busybox_layer(busybox))
    try:
        return write_archive(
            path,
            layer=layer,
            images={
                PAUSE_IMAGE: ImageConfig(entrypoint=("/bin/sleep", "infinity")),
                TEST_IMAGE: ImageConfig(environment=("PATH=/bin",), command=("/bin/sh",)),
            },
        )
    finally:
        layer.unlink()


def _entry(
    name: str, *, size: int = 0, mode: int = 0o644, kind: bytes = tarfile.REGTYPE
) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.type = size, mode, kind
    return entry
