"""Reading of manifests: from files, stdin, or the examples that come with `di`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from di_cli.edits.manifests import MOST_BYTES, ManifestError
from di_kube.safe_yaml import BadYaml, load_documents

_EXAMPLES: Final = Path(__file__).parents[1] / "examples"
"""Links to the manifests of examples/, whose contents are in the wheel."""


def examples() -> list[str]:
    """Return the names of the examples."""
    return sorted(each.stem for each in _EXAMPLES.glob("*.yaml"))


def complete_manifest(incomplete: str) -> list[str]:
    """Return the examples for shell completion, besides the shell's own files."""
    return [name for name in examples() if name.startswith(incomplete)]


def documents_of(file: str) -> list[object]:
    """Return the YAML documents of a file, of stdin (`-`), or of an example if there is no file
    with that name. Raises ManifestError.
    """
    try:
        if file == "-":
            raw = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with _place(file).open("rb") as opened:
                raw = opened.read(MOST_BYTES + 1)
        if len(raw) > MOST_BYTES:
            raise ManifestError(f"{file} is larger than {MOST_BYTES >> 20} MiB")
        return load_documents(raw, most=MOST_BYTES)
    except FileNotFoundError as error:
        known = ", ".join(examples())
        raise ManifestError(f"there is no file {file}; examples: {known}") from error
    except OSError as error:
        raise ManifestError(f"{file}: {error.strerror or error}") from error
    except BadYaml as error:
        raise ManifestError(f"{file}: {error}") from error


def _place(file: str) -> Path:
    given = Path(file)
    return _EXAMPLES / f"{file}.yaml" if not given.exists() and file in examples() else given
