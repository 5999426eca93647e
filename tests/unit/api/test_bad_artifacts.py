"""One wrong value in the artifacts of a good job, and the message that refuses it."""

from __future__ import annotations

import pytest

from di_api.validation import validate_job
from tests.unit.api.jobs import ALMOST_ALL, Job
from tests.unit.api.refusals import refused

OF_ARTIFACTS = refused(
    ALMOST_ALL,
    """
spec.artifacts[0].name: is required
spec.artifacts[0].name: "A": must be a DNS label: 1 to 63 lower-case letters, digits and dashes,
  with a letter or digit at both ends
spec.artifacts[0].path: "results": must be an absolute path such as /results, without . or .. or a
  colon
spec.artifacts[0].path: "/var/run/di-code/a": /var/run/di-code is where the operator puts its files;
  choose another, such as /results
spec.artifacts[0].path: "/code": is where spec.code is mounted; give one of them another path
spec.artifacts[0].persistentVolumeClaim: "A": must be lower-case letters, digits, dashes and dots,
  as a claim's name is
(artifacts[0]={name: a, path: /a}) spec.artifacts[0].volume: is required, unless
  persistentVolumeClaim is given
(volumes=[{name: data, hostPath: {path: /a}}]; artifacts[0].volume=data)
  spec.artifacts[0].persistentVolumeClaim: "a": artifacts are in a volume of the job or in a claim,
  not in both
(artifacts[0]={name: a, path: /a}) spec.artifacts[0].volume: "disc": no volume in spec.volumes has
  that name
spec.artifacts[0].tasks[0]: "actor": no task of this job has that name
(artifacts[1]={name: results, path: /b, persistentVolumeClaim: a}) spec.artifacts[1].name:
  "results": is the name of another artifact already
(artifacts[1]={name: b, path: /results, persistentVolumeClaim: a}) spec.artifacts[1].path:
  "/results": is where spec.artifacts[0] is mounted; give one of them another path
(artifacts[0].path=/other) spec.tasks[0].template.spec.containers[0].volumeMounts[0].mountPath:
  "/other/": is where spec.artifacts[0] is mounted; give one of them another path
spec.tasks[0].template.spec.volumes[0].name: "di-artifacts-0": is the name of a volume of
  spec.artifacts; choose another
""",
)


@pytest.mark.parametrize(("message", "bad"), OF_ARTIFACTS)
def test_a_wrong_artifact_is_refused_with_field_value_and_rule(message: str, bad: Job) -> None:
    assert [str(error) for error in validate_job(bad)] == [message]
