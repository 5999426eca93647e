"""Workers of XGBoost in three pods train one model, by the environment alone."""

from __future__ import annotations

import re

import pytest

from di_cluster.cluster import Cluster
from di_cluster.current import CurrentCluster
from tests.e2e.examples import job_of, load_image, wait_for_end
from tests.e2e.kubectl import Kubectl


@pytest.mark.proves("process-groups.md#try-it/make-demo-example-xgboost")
def test_workers_of_xgboost_get_the_same_model_from_different_rows(
    cluster: Cluster | CurrentCluster, kubectl: Kubectl, namespace: str
) -> None:
    kubectl.apply(job_of("xgboost", image=load_image(cluster, "xgboost"), namespace=namespace))
    wait_for_end(kubectl, "xgboost", namespace=namespace)
    assert kubectl.phase("xgboost", namespace=namespace) == "Succeeded"
    said = [kubectl.logs(f"xgboost-learner-{rank}", namespace=namespace) for rank in range(3)]
    found = [re.findall(r"worker (\d) of 3, .*rmse:([\d.]+)", each) for each in said]
    assert [rank for ((rank, _),) in found] == ["0", "1", "2"]
    (error,) = {float(error) for ((_, error),) in found}
    assert error < 0.2
