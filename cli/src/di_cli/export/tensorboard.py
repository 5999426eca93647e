"""Event files of TensorBoard, written by tensorboardX.

Values are stored as doubles, in the form that TensorBoard 2 gives scalars: a tensor with the
metadata of its plug-in. `SummaryWriter.add_scalar` would round them to four bytes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.export.points import points_of
from di_cli.views.reports import Reports

_DOUBLE: Final = 2
"""DT_DOUBLE of tensorboard/compat/proto/types.proto."""


def write_events(reports: Reports, folder: Path) -> int:
    """Write the numbers of a job into a new folder; return how many points.

    Raises:
        CommandError: tensorboardX is not installed, or the folder exists.
    """
    try:
        from tensorboardX.writer import FileWriter  # noqa: PLC0415  only who uses it has it
    except ImportError as error:
        raise CommandError(
            "event files are written by tensorboardX, which is not installed",
            where=str(error),
            remedy="pip install tensorboardX",
        ) from error
    if folder.exists():
        raise CommandError(
            f"{folder} exists already",
            where="TensorBoard would show its points twice",
            remedy=f"rm -r {folder}, or another --tensorboard",
            code=ExitCode.USAGE,
        )
    fresh = folder.with_name(f".{folder.name}.part")
    _remove(fresh)
    writer = FileWriter(str(fresh))
    count = 0
    for point in points_of(reports):
        writer.add_summary(_summary(point.name, point.value), point.step, point.at.timestamp())
        count += 1
    writer.close()
    fresh.rename(folder)
    return count


def _remove(fresh: Path) -> None:
    """Remove what an interrupted export has left."""
    if fresh.exists():
        for each in fresh.iterdir():
            each.unlink()
        fresh.rmdir()


def _summary(name: str, value: float) -> Any:
    from tensorboardX.proto.summary_pb2 import Summary, SummaryMetadata  # noqa: PLC0415  as above
    from tensorboardX.proto.tensor_pb2 import TensorProto  # noqa: PLC0415  as above

    plugin = SummaryMetadata.PluginData(plugin_name="scalars")
    metadata = SummaryMetadata(plugin_data=plugin)
    tensor = TensorProto(dtype=_DOUBLE, double_val=[value])
    return Summary(value=[Summary.Value(tag=name, tensor=tensor, metadata=metadata)])
