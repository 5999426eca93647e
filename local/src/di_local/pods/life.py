"""The lifetime of one pod, from its volumes to the end of its last process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from di_api.names import ENV_REPORT_SECONDS
from di_api.timestamps import format_time
from di_local.pods.environment import Missing, variables, words
from di_local.pods.mounts import Mounts
from di_local.pods.probes import answers
from di_local.pods.process import Process, last_words
from di_local.pods.runtime import Runtime, Start
from di_local.pods.status import Container, Object, pod_status, terminated, waiting
from di_local.pods.volumes import Sources, Volumes, secret_data
from di_local.report_interval import REPORT_SECONDS
from di_local.watchdog import MARK

_MESSAGE: Final = "termination message"
"""Key for the termination message, which no volume can have as its name."""
TERMINATION_LOG: Final = "/dev/termination-log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Common settings of the pods of a run.

    Attributes:
        runtime: runs the containers.
        runs: has a directory for each pod.
        given: the user's directories in place of volumes, by the volume's name.
        hosts: the file with the names of pods.
        mark: identifies the run in the environment of every process.
        replaced: puts addresses in place of names.
        first_pause, longest_pause: seconds before a failed container is restarted, doubled each
            time.
    """

    runtime: Runtime
    runs: Path
    hosts: Path
    given: Mapping[str, Path]
    mark: str
    replaced: Callable[[str], str]
    sources: Sources
    first_pause: float = 0.5
    longest_pause: float = 10.0


class Life:
    """Runs a pod.

    Args:
        tell: called with the new status at each change.
    """

    def __init__(
        self, pod: Object, place: Place, *, address: str, tell: Callable[[Object], None]
    ) -> None:
        self._pod = pod
        self._place = place
        self._address = address
        self._tell = tell
        self._status: Object = pod.get("status") or {}
        self.directory: Path = place.runs / pod["metadata"]["name"] / pod["metadata"]["uid"][:8]
        spec = pod["spec"]
        self._specs: list[Object] = [*(spec.get("initContainers") or ()), *spec["containers"]]
        first_main = len(spec.get("initContainers") or ())
        self._containers = [
            Container(each["name"], each.get("image", ""), is_init=place_in_list < first_main)
            for place_in_list, each in enumerate(self._specs)
        ]
        self._processes: dict[str, Process] = {}
        self._starts: dict[str, Start] = {}
        self._changed = asyncio.Event()
        self._volumes: Volumes | None = None
        self._stopping = asyncio.Event()

    # --- what the kubelet asks for ---

    def refresh(self) -> None:
        """Update the volumes, whose sources may have changed."""
        self._changed.set()
        if self._volumes is not None:
            with suppress(Missing, OSError):
                self._volumes.fill()

    def log(self, container: str) -> Path:
        """Return the log file of a container."""
        return self.directory / f"{container}.log"

    async def run(self) -> None:
        """Run the pod to its end."""
        self._say()
        self._volumes = await self._prepare()
        if self._volumes is None:
            return
        pairs = list(zip(self._specs, self._containers, strict=True))
        for spec, container in pairs:
            if container.is_init:
                await self._live(spec, container)
                if container.code:
                    return
        main = [(spec, container) for spec, container in pairs if not container.is_init]
        async with asyncio.TaskGroup() as group:
            for spec, container in main:
                group.create_task(self._live(spec, container))

    async def stop(self, seconds: float) -> None:
        """Run the stop hooks and terminate the processes; kill the rest after `seconds`."""
        self._stopping.set()
        self._changed.set()
        try:
            async with asyncio.timeout(seconds):
                await asyncio.gather(*map(self._leave, self._specs))
        except TimeoutError:
            pass
        finally:
            self.kill()

    def kill(self) -> None:
        """Kill all processes now."""
        self._stopping.set()
        self._changed.set()
        for process in self._processes.values():
            process.kill()

    # --- one step each ---

    async def _prepare(self) -> Volumes | None:
        """Return the volumes; None if the pod is deleted before they can be created."""
        while not self._stopping.is_set():
            self._changed.clear()
            try:
                volumes = Volumes(
                    self._pod_now(),
                    self.directory / "volumes",
                    sources=self._place.sources,
                    given=self._place.given,
                    replaced=self._place.replaced,
                )
                volumes.fill()
            except (Missing, OSError) as error:
                self._block(str(error))
                await self._changed.wait()
            else:
                return volumes
        return None

    async def _live(self, spec: Object, container: Container) -> None:
        """Start a container, and restart it as its pod's policy requires."""
        pause = self._place.first_pause
        while not self._stopping.is_set():
            began = _now()
            try:
                wanted = self._start_with(spec, attempt=container.restarts)
                self._message(spec).touch()
            except Missing as error:
                container.state = waiting("CreateContainerConfigError", str(error))
                self._say()
                return
            process = await self._place.runtime.start(wanted)
            self._starts[container.name] = wanted
            self._processes[container.name] = process
            container.state = {"running": {"startedAt": began}}
            container.ready = "readinessProbe" not in spec
            self._say()
            code = await self._watched(process, spec, container)
            message = self._last_message(spec, code, wanted.log)
            container.state = terminated(code, began=began, ended=_now(), message=message)
            container.ready = False
            if not self._restarts(code):
                break
            container.last = container.state
            container.state = waiting("CrashLoopBackOff", f"back-off {pause:g} s")
            self._say()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause)
            pause = min(2 * pause, self._place.longest_pause)
            container.restarts += 1
        self._say()

    def _restarts(self, code: int) -> bool:
        """Return whether a container with this exit code is restarted."""
        policy = self._pod["spec"].get("restartPolicy", "Always")
        again = policy == "Always" or (policy == "OnFailure" and code != 0)
        return again and not self._stopping.is_set()

    async def _watched(self, process: Process, spec: Object, container: Container) -> int:
        """Return the exit code of a process, whose probe runs meanwhile."""
        probe = spec.get("readinessProbe")
        probing = asyncio.create_task(self._probe(probe, spec, container)) if probe else None
        try:
            return await process.wait()
        finally:
            if probing is not None:
                probing.cancel()

    async def _probe(self, probe: Object, spec: Object, container: Container) -> None:
        await asyncio.sleep(probe.get("initialDelaySeconds", 0))
        run = 0
        while True:
            good = await answers(
                probe,
                spec,
                address=self._address,
                execute=lambda command: self._execute(command, spec),
                seconds=probe.get("timeoutSeconds", 1),
            )
            run = 0 if good == container.ready else run + 1
            needed = probe.get("successThreshold", 1) if good else probe.get("failureThreshold", 3)
            if run >= needed:
                container.ready, run = good, 0
                self._say()
            await asyncio.sleep(probe.get("periodSeconds", 10))

    async def _leave(self, spec: Object) -> None:
        process = self._processes.get(spec["name"])
        if process is None:
            return
        hook = (spec.get("lifecycle") or {}).get("preStop")
        if hook and "sleep" in hook:
            await asyncio.sleep(hook["sleep"]["seconds"])
        elif hook:
            # The grace period limits it (core/v1 Lifecycle), and `stop` enforces that.
            await answers(
                hook,
                spec,
                address=self._address,
                execute=lambda command: self._execute(command, spec),
                seconds=None,
            )
        process.terminate()
        await process.wait()

    async def _execute(self, command: Sequence[str], spec: Object) -> int:
        process = await self._place.runtime.execute(
            self._starts[spec["name"]],
            command,
            self.directory / f"{spec['name']}.handlers.log",
        )
        try:
            return await process.wait()
        finally:
            # Also after a timeout: nothing of it must outlive this call.
            process.kill()
            await process.wait()

    # --- what a container is started with ---

    def _start_with(self, spec: Object, *, attempt: int) -> Start:
        place, mounts, image = self._place, self._mounts(spec), spec.get("image", "")

        def replaced(text: str) -> str:
            return place.replaced(place.runtime.as_seen(mounts, text))

        own = variables(spec, self._pod_now(), replaced=replaced, read_key=self._read_key)
        pod, directory = self._pod["metadata"], spec.get("workingDir")
        return Start(
            name=f"{place.mark}-{pod['name']}-{pod['uid'][:8]}-{spec['name']}-{attempt}",
            image=image,
            command=words(spec.get("command") or place.runtime.entrypoint(image), own, replaced),
            arguments=words(spec.get("args") or (), own, replaced),
            environment={
                "HOSTNAME": pod["name"],
                "DI_LOCAL_ADDRESS": self._address,
                "DI_LOCAL_HOSTS": str(place.hosts),
                ENV_REPORT_SECONDS: str(REPORT_SECONDS),
                **own,
                MARK: place.mark,
            },
            mounts=mounts,
            working_dir=None if directory is None else place.runtime.as_seen(mounts, directory),
            log=self.log(spec["name"]),
        )

    def _mounts(self, spec: Object) -> Mounts:
        path = spec.get("terminationMessagePath") or TERMINATION_LOG
        message = {"name": _MESSAGE, "mountPath": path}
        places = {**(self._volumes.places if self._volumes else {}), _MESSAGE: self._message(spec)}
        found = Mounts([*(spec.get("volumeMounts") or ()), message], places)
        for mount in spec.get("volumeMounts") or ():
            place = found.places.get(str(mount["mountPath"]).rstrip("/"))
            # As the kubelet does.
            if mount.get("subPath") and place is not None and not place.exists():
                place.mkdir(parents=True)
        return found

    def _read_key(self, kind: str, name: str, key: str) -> str | None:
        namespace, sources = self._pod["metadata"]["namespace"], self._place.sources
        if kind == "configMapKeyRef":
            found = sources.config_map(namespace, name) or {}
            value: str | None = (found.get("data") or {}).get(key)
            return value
        data = secret_data(sources.secret(namespace, name)) or {}
        return data[key].decode() if key in data else None

    def _message(self, spec: Object) -> Path:
        return self.directory / f"{spec['name']}.message"

    def _last_message(self, spec: Object, code: int, log: Path) -> str:
        said = last_words(self._message(spec))
        if not said and code and spec.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            return last_words(log)
        return said

    def _pod_now(self) -> Object:
        return {**self._pod, "status": {**self._status, "podIP": self._address}}

    # --- what is said of it ---

    def _block(self, why: str) -> None:
        for container in self._containers:
            container.state = waiting("CreateContainerConfigError", why)
        self._say()

    def _say(self) -> None:
        status = pod_status(
            self._containers, before=self._status, address=self._address, now=_now()
        )
        if status != self._status:
            self._status = status
            self._tell(status)


def _now() -> str:
    return format_time(datetime.now(UTC))
