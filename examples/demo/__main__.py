"""`make demo`: a cluster, the chart, a refused job, a training job and its learning curve."""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from di_api.kube.config import load_config
from di_api.model import Phase
from di_api.names import LABEL_JOB
from di_cluster.cluster import Cluster
from di_cluster.current import CurrentCluster
from di_cluster.errors import ClusterError
from di_cluster.release import Release
from di_cluster.reporter import Reporter
from di_cluster.settings import Settings
from examples.demo.curve import draw_png, draw_terminal
from examples.demo.follow import events, follow

ROOT = Path(__file__).resolve().parents[2]
NAMESPACE = "default"
JOB_SECONDS = 300.0


class DemoFailed(Exception):
    """Something did not go as it should; the message says what and where to look."""


def main() -> int:
    """Run the demonstration; returns the exit code."""
    parser = argparse.ArgumentParser(prog="demo", description=__doc__)
    parser.add_argument("--example", default="cartpole", help="a folder of examples/")
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
        demo.run(ROOT / "examples" / arguments.example)
    except (ClusterError, DemoFailed) as error:
        print(f"\nThe demo did not work: {error}", file=sys.stderr)
        print("Collect the logs with: make logs", file=sys.stderr)
        return 1
    print(f"\nDone in {time.monotonic() - began:.0f} s. The cluster stays up; look around:")
    print(f"  export KUBECONFIG={cluster.kubeconfig} PATH={cluster.binary('kubectl').parent}:$PATH")
    print("  kubectl get dijobs,pods --all-namespaces")
    print("  make down        # ends it")
    return 0


class Demo:
    """The steps, one after another, each announced."""

    def __init__(self, cluster: Cluster | CurrentCluster, *, reporter: Reporter, out: Path) -> None:
        self._cluster = cluster
        self._reporter = reporter
        self._out = out

    def run(self, example: Path) -> None:
        """Run all steps.

        Raises:
            DemoFailed, ClusterError: a step did not work.
        """
        if not (example / "job.yaml").is_file():
            raise DemoFailed(
                f"there is no example {example.name}: {example / 'job.yaml'} is missing"
            )
        self._announce("A Kubernetes on this machine")
        self._cluster.up()
        self._announce("The chart, installed by helm")
        release = Release(self._cluster, root=ROOT, reporter=self._reporter)
        release.install(release.build_images())
        self._announce("A job with mistakes is refused at admission")
        self._refuse(ROOT / "examples" / "cartpole" / "refused.yaml")
        self._announce(f"The example {example.name} trains")
        image = self._cluster.build_image(example, f"di-{example.name}:dev")
        self._cluster.load_image(image.reference)
        job, phases = self._train(
            yaml.safe_load((example / "job.yaml").read_text()), image.reference
        )
        self._conclude(job, phases)

    def _announce(self, text: str) -> None:
        print(f"\n== {text}", flush=True)

    def _refuse(self, manifest: Path) -> None:
        code, said = self._kubectl("apply", "--filename", str(manifest))
        if code == 0:
            raise DemoFailed(f"{manifest} was accepted, although it has mistakes")
        print(said.strip())

    def _train(self, manifest: dict[str, Any], image: str) -> tuple[dict[str, Any], list[str]]:
        for task in manifest["spec"]["tasks"]:
            for container in task["template"]["spec"]["containers"]:
                container["image"] = image
        name = manifest["metadata"]["name"]
        self._kubectl("delete", "dijob", name, "--ignore-not-found", "--wait", "--timeout=60s")
        code, said = self._kubectl("apply", "--filename", "-", stdin=yaml.safe_dump(manifest))
        if code != 0:
            raise DemoFailed(said)
        config = load_config(str(self._cluster.kubeconfig))
        try:
            job, phases = asyncio.run(
                follow(
                    config,
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

    def _explain(self, name: str) -> None:
        """Show what a job's events and the last lines of its pods' logs say."""
        for line in self._events(name):
            print(f"  {line}")
        selector = f"--selector={LABEL_JOB}={name}"
        _, said = self._kubectl("logs", selector, "--prefix", "--tail=15", "--all-containers")
        print(said.rstrip())

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
        profilings = job["status"].get("profilings", {})
        for seconds, change in profilings.get("scaling", []):
            print(f"Scaling: {seconds:.1f} s into training the learner asked for {change:+d}")
        if not profilings.get("curve"):
            return
        print(draw_terminal(profilings))
        self._out.mkdir(parents=True, exist_ok=True)
        picture = self._out / f"{job['metadata']['name']}.png"
        draw_png(profilings, picture, title=f"DIJob {job['metadata']['name']}")
        print(f"Learning curve: {picture}")

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
