"""Programs beside a test."""

import subprocess
import sys

import pytest

from tests.programs import Program


def test_a_failed_block_ends_its_program() -> None:
    forever = [sys.executable, "-c", "import signal; print('up', flush=True); signal.pause()"]
    program = Program(forever, stdout=subprocess.PIPE)
    with pytest.raises(LookupError):
        _fail(program)
    assert program.returncode == -9


def _fail(program: Program) -> None:
    with program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"up\n"
        raise LookupError
