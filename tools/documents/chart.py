"""The README of the chart: its values with their comments, from values.yaml."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

CHART: Final = Path(__file__).resolve().parents[2] / "charts/di-orchestrator"
FILE: Final = CHART / "README.md"
_KEY: Final = re.compile(r"^( *)([A-Za-z][A-Za-z0-9]*):(?: +(.*))?$")
_OPAQUE: Final = ("aggregatorConfig.template",)
"""Keys whose value is an object of Kubernetes."""
_HEAD: Final = """# Chart di-orchestrator

Installs DI Orchestrator: the operator, the webhook and di-server, and as options di-history and the
page. [operations.md](../../docs/how-to/operations.md) describes the installation.

```
helm install di-orchestrator charts/di-orchestrator --namespace di-system --create-namespace
```

## Values

| key | default | meaning |
|---|---|---|
"""


def document() -> str:
    """Return the README."""
    rows = "".join(
        f"| `{key}` | {f'`{value}`' if value else ''} | {_cell(about)} |\n"
        for key, value, about in values((CHART / "values.yaml").read_text())
    )
    return f"{_HEAD}{rows}"


def values(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the key, the default and the comment of each value; of a block only with a comment."""
    parents: list[tuple[int, str]] = []
    comment: list[str] = []
    hidden: int | None = None
    for line in text.splitlines():
        stripped = line.strip()
        indent = len(line) - len(line.lstrip())
        if hidden is not None and stripped and indent > hidden:
            continue
        hidden = None
        if stripped.startswith("#"):
            comment.append(stripped.removeprefix("#").strip())
            continue
        found = _KEY.match(line)
        if found is None:
            comment = [] if not stripped else comment
            continue
        parents = [*(each for each in parents if each[0] < indent), (indent, found[2])]
        key = ".".join(name for _, name in parents)
        if key in _OPAQUE:
            hidden = indent
        if found[3] or comment or key in _OPAQUE:
            yield key, found[3] or "", " ".join(comment)
        comment = []


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
