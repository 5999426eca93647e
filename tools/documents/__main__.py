"""Write what is generated of the documents: `python -m tools.documents`, `--check` compares it."""

from __future__ import annotations

import sys

from tools.documents import dashboards, events, gallery, metrics, sdk

DOCUMENTS = {
    **{each.FILE: each.document for each in (events, gallery, metrics, sdk)},
    **dashboards.documents(),
}


def main(arguments: list[str]) -> int:
    """Return 1 if a document is compared and is not what it should be."""
    stale = [
        file for file, text in DOCUMENTS.items() if not file.exists() or file.read_text() != text()
    ]
    if arguments != ["--check"]:
        for file in stale:
            file.write_text(DOCUMENTS[file]())
        return 0
    for file in stale:
        print(f"{file} is not that of the declarations: make generate", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
