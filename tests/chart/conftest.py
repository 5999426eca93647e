from __future__ import annotations

import pytest

from di_cluster.cluster import Cluster
from tests.chart.chart import Chart


@pytest.fixture(scope="session")
def chart() -> Chart:
    return Chart(helm=Cluster().binary("helm"))
