"""Commands and variables of images, which are not pulled on this machine.

A manifest names images, but the programs run outside of them. A container with a `command` needs no
more. For others the project configures the command in the `pyproject.toml` beside the manifest, by
the last part of the image's name without its tag:

    [tool.di-local.images.my-training]
    command = ["python3", "-m", "my_training.main"]
    env = {PYTHONPATH = "src"}
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

FILE: Final = "pyproject.toml"
TABLE: Final = "tool.di-local.images"


class BadImages(Exception):
    """The project's file is invalid; the message has the file and the fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """The known images, by name.

    `command` is for all other images; empty: they have none.
    """

    known: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    command: tuple[str, ...] = ()

    def entrypoint(self, image: str) -> Sequence[str]:
        """Return the command of an image; empty if unknown."""
        found: Sequence[str] = self.known.get(short_name(image), {}).get("command") or ()
        return self.command or found

    def environ(self, image: str) -> Mapping[str, str]:
        """Return the variables of an image."""
        found: Mapping[str, str] = self.known.get(short_name(image), {}).get("env") or {}
        return found


def read_images(directory: Path, command: Sequence[str] = ()) -> Images:
    """Read the configuration of a project's directory; a missing one is valid.

    Raises:
        BadImages: it has another form.
    """
    path = directory / FILE
    try:
        document = tomllib.loads(path.read_text())
    except FileNotFoundError:
        return Images(command=tuple(command))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadImages(f"{path}: {error}") from error
    tool = document.get("tool")
    local = tool.get("di-local") if isinstance(tool, dict) else None
    images = (local if isinstance(local, dict) else {}).get("images", {})
    if not isinstance(images, dict):
        raise BadImages(f"{path}: {TABLE} must be a table")
    for name, image in images.items():
        _check(f"{path}: {TABLE}.{name}", image)
    return Images(known=images, command=tuple(command))


def _check(where: str, image: Any) -> None:
    if not isinstance(image, dict):
        raise BadImages(f"{where} must be a table")
    if unknown := set(image) - {"command", "env"}:
        raise BadImages(f"{where} knows command and env, not {', '.join(sorted(unknown))}")
    command, env = image.get("command", []), image.get("env", {})
    if not isinstance(command, list) or not all(isinstance(word, str) for word in command):
        raise BadImages(f"{where}.command must be a list of texts")
    if not isinstance(env, dict) or not all(isinstance(value, str) for value in env.values()):
        raise BadImages(f"{where}.env must be a table of texts")


def short_name(image: str) -> str:
    """Return the last part of an image's name, without registry, tag and digest."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]
