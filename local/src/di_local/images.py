"""What an image is on this machine: the command that its entrypoint is, and its variables.

A manifest names images; here nothing is in one. A container with a `command` needs no more. For
others the project says so in the `pyproject.toml` beside the manifest, by the image's last name
without its tag:

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
    """The project's file does not say it well; the message has the file and what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """The images that are known, by name.

    `command` is that of all others; empty: they have none.
    """

    known: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    command: tuple[str, ...] = ()

    def entrypoint(self, image: str) -> Sequence[str]:
        """The command of an image; empty if nothing says what it is."""
        found: Sequence[str] = self.known.get(short_name(image), {}).get("command") or ()
        return self.command or found

    def environ(self, image: str) -> Mapping[str, str]:
        """The variables of an image."""
        found: Mapping[str, str] = self.known.get(short_name(image), {}).get("env") or {}
        return found


def read_images(directory: Path, command: Sequence[str] = ()) -> Images:
    """Read what the project in a directory says; nothing is fine too.

    Raises:
        BadImages: it says it in another form.
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
    """The last name of an image, without registry, tag and digest."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]
