"""Programs that a test runs beside itself."""

from __future__ import annotations

import subprocess
from types import TracebackType
from typing import Any

from typing_extensions import override


class Program(subprocess.Popen[Any]):
    """A process that is killed when the block that uses it fails.

    A plain Popen would wait for its end instead, and the test for ever.
    """

    @override
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            self.kill()
        super().__exit__(kind, error, traceback)
