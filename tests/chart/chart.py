"""Rendering the chart without a cluster."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).resolve().parents[2] / "charts/di-orchestrator"
COMPONENTS = ("webhook", "operator", "server")
GIVEN_SECRETS = ("certificates.mode=existingSecret", "server.tls.secretName=given-server-tls")
"""Values for given certificates."""

Object = Mapping[str, Any]


class Refused(Exception):
    """helm did not render the chart; the message is helm's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """The objects of one rendering, hooks included."""

    objects: tuple[Object, ...]

    def of_kind(self, kind: str) -> dict[str, Object]:
        """The objects of a kind by name."""
        return {o["metadata"]["name"]: o for o in self.objects if o["kind"] == kind}

    def one(self, kind: str, name: str) -> Object:
        """The object of that kind and name."""
        return self.of_kind(kind)[name]

    def kinds(self) -> set[str]:
        return {o["kind"] for o in self.objects}

    def pods(self) -> dict[str, Object]:
        """The pod templates of Deployments, and bare pods, by name: {metadata, spec} each."""
        return {
            **{name: d["spec"]["template"] for name, d in self.of_kind("Deployment").items()},
            **self.of_kind("Pod"),
        }


@dataclass(slots=True, kw_only=True)
class Chart:
    """The chart of this repository, or a copy of it, and the helm that renders it.

    Each rendering is remembered: many tests look at the same one.
    """

    helm: Path
    folder: Path = CHART
    _rendered: dict[tuple[object, ...], Rendered] = field(default_factory=dict)

    def render(
        self,
        *values: str,
        release: str = "di",
        namespace: str = "di-system",
        api_versions: Sequence[str] = (),
    ) -> Rendered:
        """Render with `--set` values such as "webhook.replicas=3", and further APIs of the cluster.

        Raises:
            Refused: helm refuses the values.
        """
        key = (values, release, namespace, tuple(api_versions))
        more = [word for each in api_versions for word in ("--api-versions", each)]
        if key not in self._rendered:
            text = self._helm(
                ["template", release, str(self.folder), "--namespace", namespace, *more],
                (word for value in values for word in ("--set", value)),
            )
            self._rendered[key] = Rendered(
                # libyaml: the definitions in it cost yaml's own loader more than helm takes.
                objects=tuple(o for o in yaml.load_all(text, Loader=yaml.CSafeLoader) if o)
            )
        return self._rendered[key]

    def notes(self, *values: str) -> str:
        """What the user reads after an installation."""
        text = self._helm(
            ["install", "di", str(self.folder), "--namespace", "di-system", "--dry-run=client"],
            (word for value in values for word in ("--set", value)),
        )
        return text.partition("NOTES:")[2]

    def lint(self) -> str:
        """helm's own checks, warnings being errors; returns its findings."""
        return self._helm(["lint", str(self.folder), "--strict"], ())

    def _helm(self, arguments: Sequence[str], values: Iterable[str]) -> str:
        done = subprocess.run(
            [self.helm, *arguments, *values],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            # No cluster may be asked, whatever kubeconfig this machine has.
            env={"KUBECONFIG": "/dev/null", "HOME": "/nonexistent"},
        )
        if done.returncode != 0:
            raise Refused(done.stderr)
        return done.stdout
