"""The documents as a site that needs no other host: `python -m tools.release.site DIRECTORY`.

Built strictly: a link to nothing, or a page that no menu has, is an error.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

from typing_extensions import override

from tools.release.pages import MERMAID
from tools.release.version import ROOT

_PACKAGE: Final = "mermaid@11.17.2"
_SHA512: Final = (
    "V6K3C8EBdEsPFZXSKMJe6ppQOENxuHARr9GvHX4hh47lAbhMRD9qf4oEK7LoaRQxULMa80/qt5gHO73aCleBBg=="
)
_SECONDS: Final = 900
_FOREIGN: Final = re.compile(r"(?:https?:)?//")
_IN_STYLES: Final = re.compile(r"""(?:url\(|@import\s+)["']?((?:https?:)?//[^"')]*)""")


class CannotBuild(Exception):
    """The site was not built, or is not as it should be; the message has every reason."""


def fetch_mermaid(file: Path) -> None:
    """Get what draws the pictures, by npm; its checksum is that of the version above.

    Raises:
        CannotBuild: there is no npm, it fails, or what it brings is another thing.
    """
    if (npm := shutil.which("npm")) is None:
        raise CannotBuild("npm is needed for what draws the pictures: install npm")
    with tempfile.TemporaryDirectory() as temporary:
        command = [npm, "pack", "--silent", "--pack-destination", temporary, _PACKAGE]
        done = subprocess.run(
            command, cwd=temporary, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
        if done.returncode:
            raise CannotBuild(f"npm pack {_PACKAGE}: {done.stderr}")
        (archive,) = Path(temporary).glob("*.tgz")
        if base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode() != _SHA512:
            raise CannotBuild(f"{_PACKAGE} has another checksum than {_SHA512}")
        with tarfile.open(archive) as packed:
            script = packed.extractfile("package/dist/mermaid.min.js")
            assert script is not None, "a file, not a folder"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(script.read())


def build(directory: Path) -> None:
    """Build the site, in place of what is there.

    Raises:
        CannotBuild: mkdocs refuses something, or a page would fetch from another host.
    """
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", directory.resolve()],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    if done.returncode:
        raise CannotBuild(done.stdout)
    if found := list(foreign(directory)):
        raise CannotBuild("\n".join(found))


def foreign(directory: Path) -> Iterator[str]:
    """What the pages and styles would fetch from other hosts when they are looked at."""
    for page in sorted(directory.rglob("*.html")):
        fetched = _Fetched()
        fetched.feed(page.read_text())
        yield from (f"{page.relative_to(directory)}: {each}" for each in fetched.foreign)
    for style in sorted(directory.rglob("*.css")):
        for each in _IN_STYLES.findall(style.read_text()):
            yield f"{style.relative_to(directory)}: {each}"


class _Fetched(HTMLParser):
    """All that a browser fetches by itself; a link is followed by its reader."""

    def __init__(self) -> None:
        super().__init__()
        self.foreign: list[str] = []

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.foreign += [
            f"<{tag} {name}={value}>"
            for name, value in attrs
            if value and name in ("src", "srcset", "href", "data", "poster") and tag != "a"
            if _FOREIGN.match(value)
        ]


def main(arguments: list[str]) -> int:
    """Build the site into a directory."""
    (directory,) = arguments
    try:
        if not MERMAID.exists():
            fetch_mermaid(MERMAID)
        build(Path(directory))
    except CannotBuild as error:
        print(f"site: {error}", file=sys.stderr)
        return 1
    print(f"{directory}/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
