"""gunicorn as it is run here: one process, TLS whose certificate follows its files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from gunicorn.app.base import BaseApplication  # type: ignore[import-untyped]  # has no types
from typing_extensions import override

from di_api.serving.bounds import Bounds
from di_api.serving.front import Front
from di_api.serving.worker import FrontWorker, Serving
from di_webhook.app import MAX_BODY_BYTES
from di_webhook.certificate import ServingCertificate
from di_webhook.config import Config
from di_webhook.logs import gunicorn_log_config

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

# Time for reviews in flight at SIGTERM; each has 5 s.
DRAIN: Final = 10

# The API server gives a webhook 5 s for all of it. It comes from one address, with up to 200
# changes at once by its defaults, and keeps connections of earlier ones.
REVIEWS: Final = Bounds(
    handshake_seconds=4.0,
    read_seconds=4.0,
    queue_seconds=4.0,
    write_seconds=5.0,
    # Longer than the API server keeps an idle connection (90 s), so that it is never this side
    # that closes one just as a review is sent on it.
    idle_seconds=120.0,
    connections=1024,
    connections_of_source=512,
    body_bytes=lambda _path: MAX_BODY_BYTES,
    bodies_bytes=16 * MAX_BODY_BYTES,
)


class Gunicorn(BaseApplication):  # type: ignore[misc]  # base has no types
    """One worker process: one registry of metrics; scale by replicas."""

    def __init__(
        self,
        *,
        config: Config,
        certificate: ServingCertificate,
        load: Callable[[], WSGIApplication],
    ) -> None:
        self._config = config
        self._certificate = certificate
        self._load = load
        super().__init__()

    @override
    def load_config(self) -> None:
        settings: dict[str, Any] = {
            "bind": [self._config.bind],
            "workers": 1,
            "worker_class": FrontWorker,
            "graceful_timeout": DRAIN + 2,
            "logconfig_dict": gunicorn_log_config(self._config.log_level),
            "loglevel": self._config.log_level,
            "control_socket_disable": True,
        }
        if os.access("/dev/shm", os.W_OK):
            # The worker's heart-beat file: not on a root file system that may be read-only.
            settings["worker_tmp_dir"] = "/dev/shm"
        for key, value in settings.items():
            self.cfg.set(key, value)

    @override
    def load(self) -> Serving:
        """What the worker serves; called in it: threads survive no fork."""
        return Serving(
            front=Front(
                self._load(),
                threads=self._config.threads,
                bounds=REVIEWS,
                refusal=_refusal,
                tls=self._certificate.context,
            ),
            grace=DRAIN,
        )


def _refusal(_status: int, message: str) -> bytes:
    return json.dumps({"message": message}).encode()
