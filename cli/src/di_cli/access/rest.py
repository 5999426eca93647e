"""Scaling through di-server's REST API, with a token of its audience."""

from __future__ import annotations

import json
import ssl
import uuid
from typing import Any, Final

import urllib3

from di_cli.access.credentials import Login
from di_cli.errors import CommandError
from di_cli.exit_codes import BY_STATUS, ExitCode

_SECONDS: Final = 15.0
_TRIES: Final = 3
_MOST_BYTES: Final = 64 << 10


def scale_by_rest(login: Login, job: str, task: str, delta: int) -> tuple[int, str | None]:
    """Add replicas of a task, or remove some; return the new number, and what the change costs.

    Without a response it is retried with the same Idempotency-Key, so that it takes effect once.

    Args:
        login: token and server.
        job: `<namespace>.<name>`.
        task: its name.
        delta: how many more; fewer if negative, not 0.
    """
    context = ssl.create_default_context(cadata=login.authority or None)
    url = f"{login.server}/v2alpha1/{job}/replicas"
    headers = {
        "Authorization": f"Bearer {login.token}",
        "Idempotency-Key": str(uuid.uuid4()),
        "Content-Type": "application/json",
    }
    body = json.dumps({"task": task, "replicas": abs(delta)})
    name = login.tls_server_name
    expected: dict[str, Any] = {"server_hostname": name, "assert_hostname": name} if name else {}
    with urllib3.PoolManager(
        ssl_context=context, retries=False, timeout=_SECONDS, **expected
    ) as pool:
        for attempt in range(_TRIES):
            try:
                response = pool.request(
                    "POST" if delta > 0 else "DELETE",
                    url,
                    body=body,
                    headers=headers,
                    redirect=False,
                    preload_content=False,
                )
                try:
                    raw = response.read(_MOST_BYTES)
                finally:
                    response.close()
            except (urllib3.exceptions.HTTPError, OSError) as error:
                if attempt == _TRIES - 1:
                    raise CommandError(
                        f"di-server at {login.server} does not answer",
                        where=str(error),
                        remedy="di login --out: then di scale changes the job itself",
                        code=ExitCode.UNAVAILABLE,
                    ) from error
                continue
            return _result(response.status, raw, login)
    raise AssertionError("unreachable: the last attempt returns or raises")


def _result(status: int, raw: bytes, login: Login) -> tuple[int, str | None]:
    try:
        answer: Any = json.loads(raw)
        if status == 200:
            data = answer["data"]
            return int(data["replicas"]), str(data["warning"]) if data.get("warning") else None
        message = str(answer["message"])
    except (ValueError, KeyError, TypeError):
        message = f"its answer ({status}) is none of di-server's"
    raise CommandError(
        f"di-server at {login.server} refused it ({status})",
        where=message,
        remedy="di login --out: then di scale changes the job itself",
        code=BY_STATUS.get(status, ExitCode.FAILED),
    )
