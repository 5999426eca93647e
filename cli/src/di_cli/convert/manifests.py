"""DIJobs for the manifests of a file, by their kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from di_api.names import API_VERSION, KIND
from di_api.validation import validate_job
from di_cli.convert.earlier_dijob import earlier_dijob_spec
from di_cli.convert.fields import Comment, Fields, Object, RefusedManifest
from di_cli.convert.fixed_groups import jax_spec, xgboost_spec
from di_cli.convert.jobset import jobset_spec
from di_cli.convert.mpi import mpi_spec, mpi_v1_spec
from di_cli.convert.paddle import paddle_spec
from di_cli.convert.pods import metadata_of
from di_cli.convert.pytorch import pytorch_spec
from di_cli.convert.ray import raycluster_spec, rayjob_spec
from di_cli.convert.tensorflow import tensorflow_spec
from di_cli.convert.trainjob import trainjob_spec
from di_cli.convert.volcano import volcano_spec
from di_cli.documents import numbered

_KUBEFLOW: Final = "kubeflow.org/v1"
KINDS: Final[Mapping[tuple[str, str], Callable[[Fields], Object]]] = {
    (_KUBEFLOW, "PyTorchJob"): pytorch_spec,
    (_KUBEFLOW, "TFJob"): tensorflow_spec,
    (_KUBEFLOW, "XGBoostJob"): xgboost_spec,
    (_KUBEFLOW, "PaddleJob"): paddle_spec,
    (_KUBEFLOW, "JAXJob"): jax_spec,
    ("kubeflow.org/v2beta1", "MPIJob"): mpi_spec,
    (_KUBEFLOW, "MPIJob"): mpi_v1_spec,
    ("batch.volcano.sh/v1alpha1", "Job"): volcano_spec,
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): jobset_spec,
    ("ray.io/v1", "RayCluster"): raycluster_spec,
    ("ray.io/v1", "RayJob"): rayjob_spec,
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"): trainjob_spec,
    (API_VERSION, KIND): earlier_dijob_spec,
}
"""Conversion of the spec, by apiVersion and kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """A DIJob, and the fields of its manifest that have no equal."""

    job: Object
    comments: list[Comment]


def converted(documents: Iterable[object]) -> Iterator[Converted]:
    """Yield a DIJob for each manifest, also for those in Lists.

    Raises RefusedManifest.
    """
    for _, document in numbered(documents):
        if document is not None:
            yield _converted(document)


def _converted(document: object) -> Converted:
    comments: list[Comment] = []
    fields = Fields(document, "", comments)
    version, kind = fields.take("apiVersion"), fields.take("kind")
    convert = KINDS.get((str(version), str(kind)))
    if convert is None:
        raise _unknown(version, kind)
    metadata = metadata_of(fields)
    spec = fields.inner("spec")
    job = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": convert(spec)}
    fields.comment("status", "it belongs to the job that ran")
    fields.rest()
    _check(job)
    return Converted(job=job, comments=comments)


def _unknown(version: object, kind: object) -> RefusedManifest:
    if kind == KIND:
        return RefusedManifest("kind", "it is a DIJob already", "di submit FILE")
    by_version: dict[str, list[str]] = {}
    for of, name in KINDS:
        by_version.setdefault(of, []).append(name)
    known = "; ".join(f"{', '.join(names)} of {of}" for of, names in by_version.items())
    return RefusedManifest(
        "kind",
        f"{kind} of {version} is not converted; the kinds are {known}",
        "remove the document from the file",
    )


def _check(job: Object) -> None:
    """Refuse a job that the webhook would refuse."""
    for error in validate_job(job):
        raise RefusedManifest(
            f"{error.path} of the DIJob", error.advice, "change the manifest so that it is valid"
        )
