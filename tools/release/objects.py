"""All objects of the chart in one file, for clusters without helm: `kubectl apply --server-side`.

It is the chart with its default values, in the namespace `di-system`.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

NAMESPACE: Final = "di-system"
RELEASE: Final = "di-orchestrator"
FILE: Final = "deploy/di-orchestrator.yaml"
LAUNCHER_FILE: Final = "config/di-manager.yaml"
"""Where the OrchestratorLauncher of DI-engine looks for it, in the tag of a version."""
FILES: Final = (FILE, LAUNCHER_FILE)
"""Where it is in a release."""
_SECONDS: Final = 60
_HEAD: Final = f"""\
# DI Orchestrator with the default values of its chart:
#   kubectl apply --server-side -f di-orchestrator.yaml
apiVersion: v1
kind: Namespace
metadata:
  name: {NAMESPACE}
"""


class CannotRender(Exception):
    """The chart was not rendered; the message is helm's."""


def rendered(chart: Path, helm: Path) -> str:
    """Return the objects as YAML, the namespace first. Raises CannotRender."""
    done = subprocess.run(
        [helm, "template", RELEASE, chart, "--namespace", NAMESPACE, "--skip-tests"],
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
        # The same on every machine, whatever cluster its kubeconfig names.
        env={"KUBECONFIG": "/dev/null", "HOME": "/nonexistent"},
    )
    if done.returncode != 0:
        raise CannotRender(done.stderr)
    return f"{_HEAD}{done.stdout}"
