"""Links, pictures and fetched parts of the documents' site."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest
from mkdocs.config.base import load_config

from tools.release import pages, site


@pytest.mark.parametrize(
    ("path", "link", "there"),
    [
        ("docs/reference/dijob.md", "lifecycle.md#progress", "lifecycle.md#progress"),
        ("docs/reference/dijob.md", "../../README.md", "../index.md"),
        ("docs/reference/dijob.md", "../../examples/ray", "../examples/ray/index.md"),
        ("docs/reference/dijob.md", "../../examples/ray/job.yaml", "../examples/ray/job.yaml.md"),
        (
            "docs/how-to/programs/ray.md",
            "../../../tools/faults/README.md",
            "../../tools/faults/README.md",
        ),
        ("README.md", "docs/images/cartpole.png", "images/cartpole.png"),
        ("README.md", "https://example.org/docs", "https://example.org/docs"),
        ("README.md", "#try-it", "#try-it"),
        ("README.md", "docs/missing.md", "docs/missing.md"),
        ("README.md", "../../elsewhere", "../../elsewhere"),
    ],
)
def test_a_link_is_rewritten_to_the_page_of_its_file(path: str, link: str, there: str) -> None:
    assert pages.rewritten(PurePosixPath(path), f"[x]({link})") == f"[x]({there})"


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("a.html", '<script src="https://cdn.example.org/x.js"></script>'),
        ("a.html", '<link rel="stylesheet" href="//fonts.example.org/x.css">'),
        ("b/a.html", '<img src="http://example.org/x.png">'),
        ("a.css", "p { background: url('https://example.org/x.png') }"),
        ("a.css", '@import "//example.org/x.css";'),
    ],
)
def test_a_resource_of_another_host_is_found(tmp_path: Path, file: str, text: str) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / file).write_text(text)
    (tmp_path / "good.html").write_text('<a href="https://example.org"><img src="x.png"></a>')
    (found,) = site.foreign(tmp_path)
    assert found.startswith(file)
    assert "example.org" in found


def test_diagrams_are_drawn_by_the_sites_own_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load_config(str(pages.ROOT / "mkdocs.yml"))
    monkeypatch.setattr(pages, "MERMAID", tmp_path / "mermaid.min.js")
    assert pages.on_config(config).extra_javascript == []
    pages.MERMAID.touch()
    assert pages.on_config(config).extra_javascript == ["mermaid.min.js"]
    (fence,) = config.mdx_configs["pymdownx.superfences"]["custom_fences"]
    assert fence["format"]("a --> b<br>c") == (
        '<pre class="mermaid"><code>a --&gt; b&lt;br&gt;c</code></pre>'
    )


def test_a_package_with_another_checksum_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    npm = tmp_path / "npm"
    npm.write_text('#!/bin/sh\necho other > "$4/mermaid.tgz"\n')
    npm.chmod(0o755)
    monkeypatch.setattr("tools.release.site.shutil.which", lambda _: str(npm))
    with pytest.raises(site.CannotBuild, match="checksum"):
        site.fetch_mermaid(tmp_path / "mermaid.min.js")
    monkeypatch.setattr("tools.release.site.shutil.which", lambda _: None)
    with pytest.raises(site.CannotBuild, match="install npm"):
        site.fetch_mermaid(tmp_path / "mermaid.min.js")
    assert not (tmp_path / "mermaid.min.js").exists()
