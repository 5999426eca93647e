"""Plain English in pages, values, docstrings, help texts and descriptions of fields.

Retired words, sentences of more than LONGEST words, and docstrings that begin with a clause are
faults. A block below a comment `<!-- not plain: REASON -->` is exempt. Some page has to have each
term of TERMS.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tools.documents.rows import ROOT

LONGEST: Final = 35
"""Words of a sentence."""
_RETIRED: Final = re.compile(
    r"\b(?:anew|nobody|somebody|whoever|whosever|is told|are told|tells|to be had|room for)\b"
    r"|\b(?:heeded|is away|the asker)\b"
    r"|(?<!here )\bis no\b|\bOf an? ",
)
_CLAUSE: Final = re.compile(
    r"(?:Likewise|Of|That|The same|Wh(?:at|en|ere|ether|ich|ile|o|om|ose))\b"
)
"""What a docstring must not begin with: a clause or a pronoun in place of a verb or a noun."""
_PAGES: Final = ("*.md", "docs/**/*.md", "sdk/README.md", "tools/*/README.md")
_LEFT_OUT: Final = {"CHANGELOG.md", "docs/reference/tested.md"}
"""What has been written stays as it is; names of tests."""
_MARK: Final = "\N{PILCROW SIGN}"
"""Stands before a docstring, whose beginning has a rule of its own."""
_COMMENTED: Final = ("charts/*/values.yaml", "charts/*/files/alerts.yaml")
_PACKAGES: Final = ("libraries/*/src/*", "services/*/src/*", "*/src/*")
_KEYWORDS: Final = {"about", "absent", "help", "missing", "more"}
"""Of calls: help texts of commands, and descriptions of fields of the spec."""
TERMS: Final = (
    *("admission webhook", "backoff limit", "checkpoint", "custom resource", "exponential backoff"),
    *("fair share", "failure policy", "gang scheduling", "grace period", "idempotency key"),
    *("leader election", "node affinity", "optimistic concurrency", "pod disruption budget"),
    *(
        "preemption order",
        "process group",
        "resource quota",
        "rolling restart",
        "scale subresource",
    ),
    *("topology spread", "work queue"),
)
_NOT_PLAIN: Final = re.compile(r"^<!-- not plain: .+ -->\n(?:.+\n?)+", re.MULTILINE)
_FENCE: Final = re.compile(r"^ *(```|~~~).*?^ *\1[^\n]*$", re.MULTILINE | re.DOTALL)
_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
_RULE: Final = re.compile(r"^\|(?:[ :]*-+[ :]*\|)+$", re.MULTILINE)
_NEW_BLOCK: Final = re.compile(r"^(?: *(?:[-*]|\d+\.) |#+ |\|)", re.MULTILINE)
_ENTRY: Final = re.compile(r"^(?:Args|Attributes|Raises|Returns):$|^ +[\w, `]+: ", re.MULTILINE)
"""Headings of sections in docstrings, and their entries: each begins a block."""
_SENTENCE: Final = re.compile(r"(?<=[.!?:])[)\"*_`]* +(?=[\"(*_`\[]*[A-Z0-9`])")


def problems() -> list[str]:
    """Return a line for each fault of a page or package, and for each term that no page has."""
    found = [f"{name}: {fault}" for name, prose in texts() for fault in faults(prose)]
    text = " ".join(_words(path.read_text()) for path in _pages())
    return [*found, *(f"no page has the term {term!r}" for term in TERMS if term not in text)]


def texts() -> Iterator[tuple[str, list[str]]]:
    """The pages and packages by path, each with its blocks of prose."""
    for page in _pages():
        yield str(page.relative_to(ROOT)), blocks(page.read_text())
    for file in sorted(page for each in _COMMENTED for page in ROOT.glob(each)):
        yield str(file.relative_to(ROOT)), comments(file.read_text())
    for folder in sorted({f for each in _PACKAGES for f in ROOT.glob(each) if f.is_dir()}):
        if (folder / "__init__.py").exists():
            files = sorted(folder.rglob("*.py"))
            yield (
                str(folder.relative_to(ROOT)),
                [b for file in files for text in prose(file.read_text()) for b in entries(text)],
            )


def faults(found: list[str]) -> Iterator[str]:
    """What is not plain in blocks of prose: the word, or the beginning of the sentence."""
    for block in found:
        yield from (f"{match[0]!r} in: {block[:100]}" for match in _RETIRED.finditer(block))
        if block.startswith(_MARK) and _CLAUSE.match(block.removeprefix(_MARK)):
            yield f"begins with a clause: {block.removeprefix(_MARK)[:100]}"
        for sentence in _SENTENCE.split(block):
            if (length := len(re.findall(r"[\w`'-]+", sentence))) > LONGEST:
                yield f"{length} words: {sentence[:100]}"


def blocks(markdown: str) -> list[str]:
    """Paragraphs, list items and cells of tables, without code and targets of links."""
    text = _FENCE.sub("", _NOT_PLAIN.sub("", markdown))
    text = _RULE.sub("", _COMMENT.sub("", text))
    text = re.sub(r"\]\([^)]*\)", "]", text)
    # Code is one word, however long.
    text = re.sub(r"`[^`]+`", "`x`", text)
    parts = re.split(r"\n\s*\n", _NEW_BLOCK.sub(lambda match: f"\n\n{match[0]}", text))
    cells = [
        cell for part in parts for cell in (part.split("|") if part.startswith("|") else [part])
    ]
    return [" ".join(cell.split()) for cell in cells if cell.strip()]


def entries(text: str) -> list[str]:
    """Return the blocks of a docstring or help text; each entry of a section is one."""
    return blocks(_ENTRY.sub(lambda match: f"\n\n{match[0].strip()} ", text))


def comments(text: str) -> list[str]:
    """The comments of a YAML file, those of consecutive lines as one block."""
    found = re.findall(r"^ *#[^\n]*(?:\n *#[^\n]*)*", text, re.MULTILINE)
    return [b for each in found for b in blocks(re.sub(r"^ *# ?", "", each, flags=re.MULTILINE))]


def prose(source: str) -> Iterator[str]:
    """Public docstrings of a module, and texts that its calls give to users."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if not getattr(node, "name", "").startswith("_") and (text := ast.get_docstring(node)):
                yield _MARK + text
        elif (
            isinstance(node, ast.keyword)
            and node.arg in _KEYWORDS
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield node.value.value


def _pages() -> list[Path]:
    found = {page for each in _PAGES for page in ROOT.glob(each)}
    return sorted(page for page in found if str(page.relative_to(ROOT)) not in _LEFT_OUT)


def _words(text: str) -> str:
    return re.sub(r"[\s_-]+", " ", text).lower()
