"""Pages of the site that are not below docs/: a hook of mkdocs, named in `mkdocs.yml`.

In the repository links are those that a plain viewer follows: to files and folders beside docs/
too. Whatever of these is linked becomes a page: Markdown is rendered, other text is shown as it is,
of a folder the names of its files. The root's README is the first page.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[2]
MERMAID: Final = ROOT / "out" / "mermaid.min.js"
"""Draws the pictures; `make site` puts it there. Without it their text is shown."""
_DOCS: Final = PurePosixPath("docs")
_OFF: Final = "docs/reference/tested.md"
"""The page that is no part of the site: what it links would be pages too, all tests."""
_LINK: Final = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)")
_LANGUAGES: Final = {".py": "python", ".yaml": "yaml", ".toml": "toml", ".json": "json"}


@cache
def tracked() -> frozenset[str]:
    """All files that are checked in, or would be."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return frozenset(listed.stdout.splitlines())


def page_of(path: PurePosixPath) -> str:
    """Where the site has a file or folder of the repository, as mkdocs counts sources."""
    if path.is_relative_to(_DOCS):
        return str(path.relative_to(_DOCS))
    if str(path) == "README.md":
        return "index.md"
    if path.suffix == ".md":
        return str(path)
    return f"{path}/index.md" if (ROOT / path).is_dir() else f"{path}.md"


def linked(path: PurePosixPath, text: str) -> Iterator[PurePosixPath]:
    """What the links of a file lead to, of what there is; from the root."""
    for link in _LINK.findall(text):
        if (target := _target(path, link)) is not None:
            yield target


def _target(path: PurePosixPath, link: str) -> PurePosixPath | None:
    target = PurePosixPath(os.path.normpath(path.parent / link))
    return target if target.parts[0] != ".." and (ROOT / target).exists() else None


@cache
def beside() -> tuple[PurePosixPath, ...]:
    """All that is not below docs/ and has to be a page: what the README, docs/ and these link."""
    left = [PurePosixPath("README.md")]
    left += [
        PurePosixPath(each)
        for each in sorted(tracked())
        if each.startswith("docs/") and each != _OFF
    ]
    seen = set(left)
    while left:
        path = left.pop()
        if path.suffix == ".md":
            new = set(linked(path, (ROOT / path).read_text())) - seen
            seen |= new
            left += new
    return tuple(sorted(path for path in seen if not path.is_relative_to(_DOCS)))


def content(path: PurePosixPath) -> str:
    """The Markdown of a page that is not below docs/."""
    if (ROOT / path).is_dir():
        names = sorted(each for each in tracked() if PurePosixPath(each).is_relative_to(path))
        return f"# {path}\n\n" + "".join(f"- `{name}`\n" for name in names)
    text = (ROOT / path).read_text()
    if path.suffix == ".md":
        return text
    fence = "`" * 6
    return f"# {path}\n\n{fence}{_LANGUAGES.get(path.suffix, '')}\n{text}\n{fence}\n"


def rewritten(path: PurePosixPath, text: str) -> str:
    """The text of a page with its links as they are on the site."""
    own = PurePosixPath(page_of(path)).parent

    def to_page(link: re.Match[str]) -> str:
        target = _target(path, link[0])
        return link[0] if target is None else os.path.relpath(page_of(target), own)

    return _LINK.sub(to_page, text)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Have pictures drawn, from the file that the site brings itself."""
    if MERMAID.exists():
        fence = {"name": "mermaid", "class": "mermaid", "format": _as_picture}
        config.mdx_configs.setdefault("pymdownx.superfences", {})["custom_fences"] = [fence]
        config.extra_javascript.append(MERMAID.name)
    return config


def _as_picture(source: str, *_: object, **__: object) -> str:
    escaped = source.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f'<pre class="mermaid"><code>{escaped}</code></pre>'


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    for path in beside():
        page = File.generated(config, page_of(path), content=content(path))
        if path.parent.parts or path.suffix != ".md":
            page.inclusion = InclusionLevel.NOT_IN_NAV
        files.append(page)
    if MERMAID.exists():
        files.append(File.generated(config, MERMAID.name, abs_src_path=str(MERMAID)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let the links lead to pages."""
    return rewritten(_source(page.file.src_uri), markdown)


def _source(uri: str) -> PurePosixPath:
    return {page_of(path): path for path in beside()}.get(uri, _DOCS / uri)
