"""The arguments of `di run`, without the packages that run a job: help is shown at once."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from di_api.spec.task import TaskType
from di_local.engine import KNOWN

OF_CLUSTERS: Final = {
    "--with": "install the requirements yourself, here the packages of this machine are used",
    "--gpus": "every process here sees all GPUs",
}
"""Options of `di submit` that change nothing here, and why."""


def read_arguments(argv: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Return the arguments, with those after `--` for the program as `rest`, and the unknown ones.

    `--help` and wrong arguments end the process.
    """
    place = argv.index("--") if "--" in argv else len(argv)
    found, unknown = _parser().parse_known_args(argv[:place])
    found.rest = argv[place + 1 :]
    return found, unknown


def _positive(text: str) -> int:
    """Return a count of at least one. Raises ValueError, as argparse expects."""
    found = int(text)
    if found < 1:
        raise ValueError(text)
    return found


def _parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments."""
    found = argparse.ArgumentParser(prog="di", description="DIJobs on this machine.")
    commands = found.add_subparsers(dest="what", required=True)
    each = commands.add_parser(
        "run",
        help="run a job as processes, or in containers",
        description="Run a DIJob as processes here, or in containers.",
        epilog="What stands after -- is for the program.",
        # An option of the program would be taken for the beginning of one of ours.
        allow_abbrev=False,
    )
    each.add_argument(
        "file",
        type=Path,
        help="a manifest of a job or sweep (YAML, JSON), a program, or a folder with --entry",
    )
    each.add_argument("--entry", metavar="FILE", help="file of a folder that is started")
    each.add_argument(
        "--track",
        action="store_true",
        help="report what a program logs to TensorBoard, Weights & Biases or MLflow",
    )
    for word, about in OF_CLUSTERS.items():
        each.add_argument(word, metavar="VALUE", help=f"as in di submit; {about}")
    for kind in TaskType:
        if kind is not TaskType.NONE:
            one = kind is TaskType.LEARNER
            each.add_argument(
                f"--{kind}s", type=int, metavar="N", default=int(one), help=f"of a program: {kind}s"
            )
    each.add_argument(
        "--folder",
        type=Path,
        metavar="DIRECTORY",
        help="working directory of a manifest's programs; default: the folder of the manifest",
    )
    each.add_argument("--name", help="name of the job for a program; default: the program's name")
    each.add_argument("--command", help="command of containers that have none")
    each.add_argument(
        "--volume",
        action="append",
        default=[],
        metavar="NAME=DIRECTORY",
        help="a local directory in place of a volume",
    )
    each.add_argument(
        "--checkpoint",
        type=Path,
        metavar="DIRECTORY",
        help="directory of the learners' checkpoints, in place of the manifest's volume or claim",
    )
    each.add_argument(
        "--artifacts",
        type=Path,
        metavar="DIRECTORY",
        help="directory of the artifacts of all pods, in place of the manifest's volume or claim",
    )
    each.add_argument(
        "--image",
        metavar="IMAGE",
        help="run in containers of this image, with the folder of the manifest or program",
    )
    each.add_argument(
        "--containers", action="store_true", help="run in containers of the manifest's own images"
    )
    each.add_argument(
        "--engine", metavar="COMMAND", help=f"of containers; the first there of {', '.join(KNOWN)}"
    )
    each.add_argument(
        "--engine-option",
        action="append",
        default=[],
        metavar="OPTION",
        help="option of the engine's `run`, such as --engine-option=--gpus=all",
    )
    each.add_argument(
        "--parallelism",
        type=_positive,
        metavar="N",
        help="of a sweep: trials at the same time, in place of the manifest's number",
    )
    each.add_argument("-f", "--logs", action="store_true", help="show the output of pods")
    return found
