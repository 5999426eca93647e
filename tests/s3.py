"""S3-compatible storage of a test's own: Versity's gateway to a folder."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.failures.sources import shown_log
from tests.ports import held_port
from tests.waiting import STOP_SECONDS, wait_until

BUCKET = "rl-logs"
ACCESS_KEY, SECRET_KEY = "tests", "of-tests-alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """A server that answers."""

    endpoint: str
    folder: Path
    process: subprocess.Popen[bytes]

    def objects(self) -> list[str]:
        """Keys of all objects."""
        bucket = self.folder / "data" / BUCKET
        found = (each for each in bucket.rglob("*") if each.is_file())
        names = (str(each.relative_to(bucket)) for each in found)
        return sorted(each for each in names if not each.startswith(".sgwtmp"))

    def read(self, key: str) -> bytes:
        """One of them."""
        return (self.folder / "data" / BUCKET / key).read_bytes()

    def kill(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.wait(STOP_SECONDS)


@contextmanager
def running_storage(
    program: Path,
    folder: Path,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    certificate: tuple[Path, Path] | None = None,
) -> Iterator[Storage]:
    """Serve an empty bucket, or what an earlier server left in the folder, until the body ends.

    Args:
        certificate: files of one and its key, for HTTPS.
    """
    with held_port() as own:
        port = port or own
        (folder / "data" / BUCKET).mkdir(parents=True, exist_ok=True)
        (folder / "metadata").mkdir(exist_ok=True)
        words = [str(program), "--port", f"{host}:{port}"]
        if certificate is not None:
            words += ["--cert", str(certificate[0]), "--key", str(certificate[1])]
        # It keeps metadata of objects in files: not every file system has extended attributes.
        words += ["posix", "--sidecar", str(folder / "metadata"), str(folder / "data")]
        keys = {"ROOT_ACCESS_KEY_ID": ACCESS_KEY, "ROOT_SECRET_ACCESS_KEY": SECRET_KEY}
        log = folder / "storage.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                words, env={**os.environ, **keys}, stdout=output, stderr=subprocess.STDOUT
            )
        scheme = "http" if certificate is None else "https"
        found = Storage(endpoint=f"{scheme}://{host}:{port}", folder=folder, process=process)

        def answers() -> bool:
            assert process.poll() is None, log.read_text()
            try:
                socket.create_connection((host, port), timeout=60).close()
            except OSError:
                return False
            return True

        try:
            with shown_log(log):
                wait_until(answers, what=f"the storage, see {log}")
                yield found
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(STOP_SECONDS)
