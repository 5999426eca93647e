"""Write what is generated of the documents: `python -m tools.documents`, `--check` compares it."""

from __future__ import annotations

import sys

from tools.documents import (
    chart,
    dashboards,
    events,
    gallery,
    language,
    maturity,
    metrics,
    sdk,
    tested,
)

DOCUMENTS = {
    **{each.FILE: each.document for each in (chart, events, gallery, maturity, metrics, sdk)},
    **dashboards.documents(),
    # Made of the other pages too, so it is the last one.
    tested.FILE: tested.document,
}


def main(arguments: list[str]) -> int:
    """Return 1 if a document is compared and is not what it should be, a row has no test,
    or a page is not plain."""
    check = arguments == ["--check"]
    found = [*tested.problems(), *language.problems()] if check else []
    for file, text in DOCUMENTS.items():
        if file.exists() and file.read_text() == text():
            continue
        if check:
            found.append(f"{file} is not that of the declarations: make generate")
        else:
            file.write_text(text())
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
