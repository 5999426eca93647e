"""`make demo`: a cluster, the chart, a refused job, a training job and its learning curve."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from di_api.coordinated import coordinator_name
from di_api.names import LABEL_JOB
from di_api.phase import Phase
from di_cluster.builds.images import Image
from di_cluster.cluster import Cluster
from di_cluster.current import CurrentCluster
from di_cluster.errors import ClusterError
from di_cluster.release import Release
from di_cluster.reporter import Reporter
from di_cluster.settings import Settings
from di_cluster.waiting import wait_until
from di_kube.config import load_config
from di_kube.resources import DIJOBS
from examples.demo.curve import read_record
from examples.demo.follow import events, follow
from examples.demo.manifests import EXAMPLES, REFUSED, ROOT, with_image
from examples.demo.records import record_of
from examples.demo.share import ARRANGEMENTS, JOBS, SLOT, SLOTS, Arrangement, Course, draw_all
from examples.images import build

PICTURE_OF_THE_PAGE = ROOT / "docs" / "images" / "dashboard-job.png"
NAMESPACE = "default"
JOB_SECONDS = 600.0
HISTORY = ("--set", "history.enabled=true,history.persistence.enabled=false")
"""What happens to jobs is kept for as long as its pod lives."""
KEPT = ("--reset-then-reuse-values",)
"""On a cluster that runs already, values that the user has set stay as they are."""
INSTALLED = ("webhook", "operator", "server", "history")
"""Components of the chart that are there with these values."""

_UNREACHED = "failed calling webhook"
_PROXY_SECONDS = 20.0
"""Until then the node's proxy has the addresses of pods that helm has seen ready."""


class _Unreached(Exception):
    """The API server does not reach the webhook yet; the message is what it said."""


class DemoFailed(Exception):
    """Something did not go as it should; the message says what and where to look."""


def main() -> int:
    """Run the demonstration; returns the exit code."""
    parser = argparse.ArgumentParser(prog="demo", description=__doc__)
    parser.add_argument("--example", default="cartpole", choices=EXAMPLES)
    parser.add_argument(
        *("--arrangement", "-a"),
        default="goodput",
        choices=ARRANGEMENTS,
        help="of the two jobs of the example share",
    )
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "demo", help="for the pictures")
    arguments = parser.parse_args()
    began = time.monotonic()
    settings = Settings.from_environment(os.environ)
    reporter = Reporter(sys.stdout)
    cluster = (
        CurrentCluster(settings=settings, reporter=reporter)
        if settings.cluster == "current"
        else Cluster("demo", profile="node", settings=settings, reporter=reporter)
    )
    demo = Demo(cluster, reporter=reporter, out=arguments.out)
    try:
        if arguments.example == "share":
            demo.run_sharing(EXAMPLES["share"], arguments.arrangement)
        else:
            demo.run(EXAMPLES[arguments.example])
    except (ClusterError, DemoFailed) as error:
        print(f"\nThe demo did not work: {error}", file=sys.stderr)
        print("Collect the logs with: make logs", file=sys.stderr)
        return 1
    print(f"\nDone in {time.monotonic() - began:.0f} s. The cluster stays up; look around:")
    print(f"  export KUBECONFIG={cluster.kubeconfig} PATH={cluster.binary('kubectl').parent}:$PATH")
    print("  kubectl get dijobs,pods --all-namespaces")
    di = Path(sys.executable).with_name("di")
    print(f"  {di} history {kept_job(arguments.example)}    # what happened, also when it is gone")
    print(f"  {di} dashboard     # the page; it prints its address")
    print(f"  {PICTURE_OF_THE_PAGE}     # what that looks like")
    print("  make down        # ends it")
    return 0


def kept_job(example: str) -> str:
    """The name of a job of the example, for who asks what happened to it."""
    if example == "share":
        return JOBS[0].name
    return str(yaml.safe_load(EXAMPLES[example].read_text())["metadata"]["name"])


class Demo:
    """The steps, one after another, each announced."""

    def __init__(self, cluster: Cluster | CurrentCluster, *, reporter: Reporter, out: Path) -> None:
        self._cluster = cluster
        self._reporter = reporter
        self._out = out

    def run(self, manifest: Path) -> None:
        """Run all steps.

        Raises:
            DemoFailed, ClusterError: a step did not work.
        """
        image = self._install(manifest)
        self._announce("A job with mistakes is refused at admission")
        self._refuse(REFUSED)
        self._announce(f"{manifest.relative_to(ROOT)} trains")
        self._cluster.load_image(image)
        job, phases = self._train(with_image(manifest, image.reference))
        self._conclude(job, phases)

    def run_sharing(self, manifest: Path, name: str) -> None:
        """Run two jobs that share the slots of the node.

        Args:
            name: of one of the ARRANGEMENTS.

        Raises:
            DemoFailed, ClusterError: a step did not work.
        """
        arrangement = ARRANGEMENTS[name]
        image = self._install(manifest, *arrangement.values())
        self._announce(f"Two jobs of {manifest.relative_to(ROOT)} on {SLOTS} slots: {name}")
        self._cluster.load_image(image)
        course = self._share(with_image(manifest, image.reference), arrangement)
        self._announce("What happened")
        for line in course.lines():
            print(line)
        print(course.draw_terminal())
        course.write(self._out, name)
        picture = draw_all(self._out)
        print(f"Learners, waiting and samples a second: {picture}")

    def _install(self, manifest: Path, *arguments: str) -> Image:
        """Have a cluster with a release, and the image of what trains, which it does not know."""
        self._announce("A Kubernetes on this machine, and the images for it")
        release = Release(self._cluster, root=ROOT, reporter=self._reporter)
        self._cluster.prepare_images()
        with ThreadPoolExecutor(max_workers=1) as beside:
            # They wait for downloads while the other compiles, or starts.
            images = beside.submit(release.build_images, INSTALLED)
            trains = beside.submit(build, self._cluster, manifest.parent)
            self._cluster.up()
            self._announce("The chart, installed by helm")
            release.install(images.result(), arguments=(*KEPT, *HISTORY, *arguments))
            return trains.result()

    def _share(self, manifest: dict[str, Any], arrangement: Arrangement) -> Course:
        """Make the jobs in their time, and look at them every second until both have ended."""
        names = [work.name for work in JOBS]
        self._kubectl("delete", "dijob", *names, "--ignore-not-found", "--wait", "--timeout=60s")
        self._offer_slots()
        course, made = Course({}), set[str]()
        began = time.monotonic()
        while not course.is_over:
            passed = time.monotonic() - began
            for work in JOBS:
                if work.name not in made and passed >= work.after:
                    made.add(work.name)
                    self._apply(arrangement.job(manifest, work))
            code, said = self._kubectl("get", "dijobs", "--output=json")
            if code == 0:
                for job in json.loads(said)["items"]:
                    if job["metadata"]["name"] in made:
                        self._see(course, job, passed)
            if passed > JOB_SECONDS:
                raise DemoFailed(f"the jobs did not end within {JOB_SECONDS:.0f} s")
            time.sleep(max(0.0, began + passed + 1 - time.monotonic()))
        return course

    def _see(self, course: Course, job: Mapping[str, Any], passed: float) -> None:
        name = job["metadata"]["name"]
        before = course.looks.get(name, [None])[-1]
        course.add(job, passed)
        now, phase = course.looks[name][-1], (job.get("status") or {}).get("phase", "")
        if phase == Phase.FAILED:
            self._explain(name)
            raise DemoFailed(f"job {name} is {phase}")
        if before is None or (before.replicas, before.is_over) != (now.replicas, now.is_over):
            self._reporter.say(f"{name:<6} {phase:<12} {now.replicas} learners, step {now.step}")

    def _offer_slots(self) -> None:
        """Tell the node that it has slots, as the plug-in of a device would."""
        key = f"/status/capacity/{SLOT.replace('/', '~1')}"
        keys = (key, key.replace("capacity", "allocatable"))
        patch = json.dumps([{"op": "add", "path": each, "value": str(SLOTS)} for each in keys])
        _, nodes = self._kubectl("get", "nodes", "--output=name")
        patched = ("--subresource=status", "--type=json", "--patch", patch)
        code, said = self._kubectl("patch", nodes.split()[0], *patched)
        if code != 0:
            raise DemoFailed(said)

    def _announce(self, text: str) -> None:
        print(f"\n== {text}", flush=True)

    def _refuse(self, manifest: Path) -> None:
        said = ""

        def is_answered() -> bool:
            nonlocal said
            code, said = self._kubectl("apply", "--filename", str(manifest))
            if code == 0:
                raise DemoFailed(f"{manifest} was accepted, although it has mistakes")
            if _UNREACHED in said:
                raise _Unreached(said.strip())
            return True

        wait_until(
            is_answered,
            seconds=_PROXY_SECONDS,
            what="the webhook to answer",
            every=0.5,
            tolerate=(_Unreached,),
        )
        print(said.strip())

    def _train(self, manifest: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        name = manifest["metadata"]["name"]
        self._kubectl("delete", "dijob", name, "--ignore-not-found", "--wait", "--timeout=60s")
        self._apply(manifest)
        config = load_config(str(self._cluster.kubeconfig))
        try:
            job, phases = asyncio.run(
                follow(
                    config,
                    resource=replace(DIJOBS, version=manifest["apiVersion"].partition("/")[2]),
                    namespace=NAMESPACE,
                    name=name,
                    show=self._reporter.say,
                    seconds=JOB_SECONDS,
                )
            )
        except TimeoutError as error:
            self._explain(name)
            raise DemoFailed(f"job {name} did not end within {JOB_SECONDS:.0f} s") from error
        if job["status"]["phase"] != Phase.SUCCEEDED:
            self._explain(name)
            raise DemoFailed(f"job {name} is {job['status']['phase']}")
        return job, phases

    def _apply(self, job: Mapping[str, Any]) -> None:
        code, said = self._kubectl("apply", "--filename", "-", stdin=yaml.safe_dump(dict(job)))
        if code != 0:
            raise DemoFailed(said)

    def _explain(self, name: str) -> None:
        """Show what a job's events and the last lines of its pods' logs say."""
        for line in self._events(name):
            print(f"  {line}")
        selector = f"--selector={LABEL_JOB}={name}"
        _, said = self._kubectl("logs", selector, "--prefix", "--tail=15", "--all-containers")
        print(said.rstrip())

    def _say_results(self, name: str) -> None:
        """Show how the logs end of the pods that have done their work."""
        done = (f"--selector={LABEL_JOB}={name}", "--field-selector=status.phase=Succeeded")
        for pod in self._kubectl("get", "pods", *done, "--output=name")[1].split():
            print(self._kubectl("logs", pod, "--prefix", "--tail=5")[1].rstrip())

    def _events(self, name: str) -> list[str]:
        _, uid = self._kubectl("get", "dijob", name, "--output=jsonpath={.metadata.uid}")
        config = load_config(str(self._cluster.kubeconfig))
        return asyncio.run(events(config, namespace=NAMESPACE, uid=uid))

    def _conclude(self, job: dict[str, Any], phases: list[str]) -> None:
        self._announce("What happened")
        print("Phases:")
        for line in phases:
            print(f"  {line}")
        print("Events:")
        for line in self._events(job["metadata"]["name"]):
            print(f"  {line}")
        group, _, version = job["apiVersion"].partition("/")
        print(self._kubectl("get", f"{DIJOBS.plural}.{version}.{group}")[1].rstrip())
        record = record_of(self._profilings(job))
        if record is None:
            print("What was said last by the pods that succeeded:")
            self._say_results(job["metadata"]["name"])
            return
        for line in record.changes():
            print(line)
        print(record.draw_terminal())
        self._out.mkdir(parents=True, exist_ok=True)
        picture = self._out / f"{job['metadata']['name']}.png"
        record.draw_png(picture, title=f"DIJob {job['metadata']['name']}")
        print(f"Learning curve: {picture}")

    def _profilings(self, job: dict[str, Any]) -> Mapping[str, Any]:
        """What the job tells of its training: in its status, or in its coordinator's log."""
        if "coordinator" not in job["spec"]:
            profilings: Mapping[str, Any] = job["status"].get("profilings", {})
            return profilings
        _, said = self._kubectl("logs", coordinator_name(job["metadata"]["name"]))
        return read_record(said)

    def _kubectl(self, *arguments: str, stdin: str | None = None) -> tuple[int, str]:
        done = subprocess.run(
            [
                *(str(self._cluster.binary("kubectl")), f"--kubeconfig={self._cluster.kubeconfig}"),
                *(f"--namespace={NAMESPACE}", *arguments),
            ],
            check=False,
            text=True,
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=120,
        )
        return done.returncode, done.stdout


if __name__ == "__main__":
    sys.exit(main())
