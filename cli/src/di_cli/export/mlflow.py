"""Runs of an MLflow server, by its REST API 2.0.

https://mlflow.org/docs/latest/api_reference/rest-api.html
"""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any, Final

import urllib3

from di_cli.errors import CommandError
from di_cli.exit_codes import BY_STATUS, ExitCode
from di_cli.export.points import Point

URL_VARIABLE: Final = "MLFLOW_TRACKING_URI"
TAG_UID: Final = "di.job.uid"
_BATCH: Final = 1000
"""Maximum number of metrics of a request (LogBatch)."""
_SECONDS: Final = 30.0
_MOST_BYTES: Final = 1 << 20
_BAD: Final = re.compile(r"[^0-9A-Za-z_\-. :/]")
"""Characters that a name of a metric must not have."""

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class MlflowServer:
    """An MLflow server; requests have the credentials of MLflow's own variables.

    Attributes:
        url: http or https, without a slash at the end.
        pool: connections that its requests share.
    """

    url: str
    pool: urllib3.PoolManager = field(
        default_factory=lambda: urllib3.PoolManager(retries=False, timeout=_SECONDS),
        repr=False,
        compare=False,
    )

    def export(
        self,
        points: Iterable[Point],
        *,
        experiment: str,
        run: str,
        uid: str,
        tags: Mapping[str, str],
        started: datetime,
        ended: datetime | None,
        status: str,
    ) -> str:
        """Write points to the run of a job, which is made if there is none; return its page.

        A point that the run has already is not stored again, so an export can be repeated.

        Args:
            run: name of a new run.
            uid: of the job; the run with it in TAG_UID is the job's.
            status: of the run, such as FINISHED.

        Raises:
            CommandError: the server does not respond, or refused it.
        """
        of = self._experiment(experiment)
        run_id = self._run(of, uid) or self._new_run(of, run, uid, tags, started)
        rest = iter(points)
        while batch := [_metric(each) for each in islice(rest, _BATCH)]:
            self._ask("POST", "runs/log-batch", {"run_id": run_id, "metrics": batch})
        end = {} if ended is None else {"end_time": _milliseconds(ended)}
        self._ask("POST", "runs/update", {"run_id": run_id, "status": status, **end})
        return f"{self.url}/#/experiments/{of}/runs/{run_id}"

    def _experiment(self, name: str) -> str:
        found = self._ask("GET", "experiments/get-by-name", {"experiment_name": name}, missing=True)
        if found is not None:
            return str(found["experiment"]["experiment_id"])
        return str(self._ask("POST", "experiments/create", {"name": name})["experiment_id"])

    def _run(self, experiment: str, uid: str) -> str | None:
        """Return the run of a job; None without one."""
        wanted = {"experiment_ids": [experiment], "filter": f"tags.`{TAG_UID}` = '{uid}'"}
        found = self._ask("POST", "runs/search", {**wanted, "max_results": 1})
        return next((str(each["info"]["run_id"]) for each in found.get("runs", ())), None)

    def _new_run(
        self, experiment: str, name: str, uid: str, tags: Mapping[str, str], started: datetime
    ) -> str:
        body = {
            "experiment_id": experiment,
            "run_name": name,
            "start_time": _milliseconds(started),
            "tags": [{"key": k, "value": v} for k, v in {**tags, TAG_UID: uid}.items()],
        }
        return str(self._ask("POST", "runs/create", body)["run"]["info"]["run_id"])

    def _ask(self, method: str, path: str, body: Object, *, missing: bool = False) -> Any:
        """Return the response; None for what does not exist, if it may be missing."""
        url = f"{self.url}/api/2.0/mlflow/{path}"
        headers = {"Content-Type": "application/json", **_credentials()}
        sent: Object = {"fields": body} if method == "GET" else {"body": json.dumps(body)}
        try:
            response = self.pool.request(
                method, url, headers=headers, redirect=False, preload_content=False, **sent
            )
            try:
                raw = response.read(_MOST_BYTES)
            finally:
                response.close()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise CommandError(
                f"MLflow at {self.url} does not answer",
                where=str(error),
                remedy=f"--mlflow URL, or {URL_VARIABLE}",
                code=ExitCode.UNAVAILABLE,
            ) from error
        if response.status == 404 and missing:
            return None
        try:
            answer = json.loads(raw)
        except ValueError:
            answer = {}
        if response.status == 200 and isinstance(answer, dict):
            return answer
        message = answer.get("message") if isinstance(answer, dict) else None
        raise CommandError(
            f"MLflow refused {path} ({response.status})",
            where=str(message or "its answer is none of MLflow's"),
            remedy="MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN"
            if response.status in (401, 403)
            else f"--mlflow URL, or {URL_VARIABLE}",
            code=BY_STATUS.get(response.status, ExitCode.FAILED),
        )


def _credentials() -> dict[str, str]:
    """Return the header of MLflow's variables; empty without one."""
    name = os.environ.get("MLFLOW_TRACKING_USERNAME")
    if name:
        pair = f"{name}:{os.environ.get('MLFLOW_TRACKING_PASSWORD', '')}"
        return {"Authorization": f"Basic {b64encode(pair.encode()).decode()}"}
    token = os.environ.get("MLFLOW_TRACKING_TOKEN")
    return {"Authorization": f"Bearer {token}"} if token else {}


def _metric(point: Point) -> Object:
    return {
        "key": _BAD.sub("_", point.name),
        "value": point.value,
        "timestamp": _milliseconds(point.at),
        "step": point.step,
    }


def _milliseconds(at: datetime) -> int:
    return round(at.timestamp() * 1000)
