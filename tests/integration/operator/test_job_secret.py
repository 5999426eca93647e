"""The secret of a job outlives the operator that made its key."""

from __future__ import annotations

import pytest

from di_api.names import ENV_JOB_SECRET
from di_kube.config import KubeConfig
from di_kube.resources import PODS, SECRETS
from di_operator.builders.access import job_secret
from di_operator.certificates.rotation import secret_value
from di_operator.job_secrets.key import KEY
from tests.integration.operator_testbed import Testbed, job, on_testbed, task

pytestmark = pytest.mark.usefixtures("crd")
SECRET = "di-job-secrets"


def test_pods_made_by_two_leaders_have_the_same_secret(
    kube_config: KubeConfig, namespace: str
) -> None:
    async def secret_of(testbed: Testbed, pod: str) -> str:
        body = await testbed.client.get(PODS, pod, namespace)
        variables = body["spec"]["containers"][0]["env"]
        (found,) = (each["value"] for each in variables if each["name"] == ENV_JOB_SECRET)
        return str(found)

    async def scenario(testbed: Testbed) -> None:
        async with testbed.operator(job_secrets=SECRET):
            submitted = await testbed.submit(job("x", task("learner")))
            await testbed.phase("x", "Running")
        async with testbed.operator(job_secrets=SECRET):
            await testbed.submit(job("y", task("learner")))
            await testbed.phase("y", "Running")
        key = secret_value(await testbed.client.get(SECRETS, SECRET, namespace), KEY)
        uid = submitted["metadata"]["uid"]
        assert await secret_of(testbed, "x-learner-0") == job_secret(key, uid)
        assert await secret_of(testbed, "y-learner-0") != job_secret(key, uid)

    on_testbed(kube_config, namespace, scenario)
