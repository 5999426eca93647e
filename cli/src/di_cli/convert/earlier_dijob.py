"""DIJobs of DI Orchestrator 1.1 in Go: one template, and bounds of the whole job."""

from __future__ import annotations

from typing import Final

from di_api.spec.task import TaskType
from di_cli.convert.fields import Fields, Object, RefusedManifest
from di_cli.convert.pods import template_of

_KEPT: Final = ("priority", "cleanPodPolicy", "group", "backoffLimit")
_TASK: Final = "worker"
TODAY: Final = ("tasks", "coordinated")
"""Fields of the spec of which today's jobs have one."""


def earlier_dijob_spec(spec: Fields) -> Object:
    """Return the spec of a DIJob with one task for a job with one template."""
    if any(name in spec for name in TODAY):
        raise RefusedManifest("kind", "it is a DIJob already", "di submit FILE")
    result: Object = {name: spec.take(name) for name in _KEPT if name in spec}
    preemptible = spec.take("preemptible")
    least, most = (spec.whole(name, 1) for name in ("minReplicas", "maxReplicas"))
    task: Object = {"type": TaskType.NONE.value, "name": _TASK, "replicas": least or 1}
    if preemptible is True:
        task |= {"minReplicas": least or 1, "maxReplicas": most or least or 1}
        result["preemptible"] = True
    elif most is not None:
        spec.remark("maxReplicas", "a job that is not preemptible keeps minReplicas pods")
    if preemptible is False:
        result["preemptible"] = False
    if "template" not in spec:
        raise RefusedManifest(spec.at("template"), "is missing", "give the template of the pods")
    task["template"] = template_of(spec)
    engine = spec.inner("engineFields")
    engine.comment("topology", "give --topology to ditask, whose pods find each other by DI_NODES")
    engine.comment("parallelWorkers", "give --parallel-workers to ditask")
    engine.rest()
    result["tasks"] = [task]
    spec.rest()
    return result
