"""Jobs created through the API server, good and bad ones, most of them as dry runs."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp

from di_api import names
from di_kube.config import KubeConfig
from tests.waiting import DEADLINE
from tools.soak.load import Tally
from tools.soak.stage import WEBHOOK, Stage

_STORED_EVERY: Final = 100
"""Others are dry runs: etcd is not what is tried here."""
_BAD_EVERY: Final = 10
_AGAIN_SECONDS: Final = 1.0
_SECONDS: Final = aiohttp.ClientTimeout(total=20)


@dataclass(slots=True, kw_only=True)
class Admissions:
    """Creates jobs; each is to be admitted, or refused by the rules, whatever is killed."""

    stage: Stage
    config: KubeConfig
    session: aiohttp.ClientSession
    tally: Tally = field(default_factory=Tally)

    async def one(self, _worker: int, number: int) -> None:
        """One creation, sent again while a kill explains the answer."""
        began = time.monotonic()
        while time.monotonic() < began + DEADLINE:
            sent = time.monotonic()
            fault = await self._create(number)
            if not fault:
                self.tally.seconds.append(time.monotonic() - began)
                return
            if not self.stage.kills[WEBHOOK].explain(sent, time.monotonic()):
                break
            self.tally.retried[_kind(fault)] += 1
            # The API server learns a moment later that the endpoint is gone.
            await asyncio.sleep(_AGAIN_SECONDS)
        self.tally.failed.append(fault)

    async def _create(self, number: int) -> str:
        """What is wrong with the answer; empty if nothing is."""
        is_bad, is_stored = number % _BAD_EVERY == 0, number % _STORED_EVERY == 1
        url = (
            f"{self.config.server}/apis/{names.API_VERSION}/namespaces/{self.stage.jobs}/"
            f"{names.PLURAL}?{'' if is_stored else 'dryRun=All'}"
        )
        try:
            async with self.session.post(
                url, json=_job(f"soak-{number}", bad=is_bad), timeout=_SECONDS
            ) as answer:
                return fault_of(answer.status, await answer.json(), is_bad=is_bad)
        except (aiohttp.ClientError, TimeoutError) as error:
            return f"{type(error).__name__}: {error}"


def fault_of(status: int, body: dict[str, Any], *, is_bad: bool) -> str:
    """What is wrong with an answer to a creation; empty if nothing is."""
    if is_bad:
        said = body.get("message", "")
        is_refused = status == 422 and "denied the request" in said
        return "" if is_refused else f"a bad job got {status}: {said[:300]}"
    if status == 409 and body.get("reason") == "AlreadyExists":
        return ""  # A first try whose answer did not come had been stored.
    if status != 201:
        return f"{status}: {body.get('message', '')[:300]}"
    # The definition has all defaults but this one: without it the mutating webhook was passed by.
    has_name = body["spec"]["tasks"][0].get("name") == "learner"
    return "" if has_name else "admitted without the defaults of the webhook"


def _job(name: str, *, bad: bool) -> dict[str, Any]:
    """A job without defaults; a bad one waits for a task that it does not have."""
    template = {"spec": {"containers": [{"name": names.DI_CONTAINER, "image": "none"}]}}
    task: dict[str, Any] = {"type": "learner", "template": template}
    if bad:
        task["dependsOn"] = ["nobody"]
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": name},
        "spec": {"tasks": [task]},
    }


def _kind(fault: str) -> str:
    """The fault without what differs each time."""
    return (
        fault.split(":", maxsplit=1)[0]
        if "failed calling webhook" not in fault
        else "no webhook answered"
    )
