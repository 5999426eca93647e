"""One pod of DI-engine's `dist` mode, with DI-engine's own CartPole DQN for Kubernetes.

`python3 dist.py ROLE` with coordinator, collector or learner. These functions of
DI-engine are what `ding -m dist --module ROLE` is meant to call; in this release that command
hands them a parsed configuration where they expect the name of a file.
"""

import os
import shutil
import sys

from ding.entry.dist_entry import (
    dist_launch_collector,
    dist_launch_coordinator,
    dist_launch_learner,
    dist_prepare_config,
)
from dizoo.classic_control.cartpole.config.parallel import cartpole_dqn_config_k8s

SEED = 0


def main(role: str) -> None:
    """Run until training has ended; ports come from the pod's environment."""
    shutil.copyfile(cartpole_dqn_config_k8s.__file__, "config.py")
    nowhere = (None,) * 6  # hosts and ports: the operator's
    prepared = dist_prepare_config("config.py", SEED, "k8s", *nowhere)
    match role:
        case "coordinator":
            dist_launch_coordinator(prepared, SEED, None, disable_flask_log=True)
            # It has said that training is over. Python would wait for its threads, and one of them
            # may wait for ever for a task whose master is closed already.
            sys.stdout.flush()
            os._exit(0)
        case "collector":
            dist_launch_collector(prepared, SEED, None)
        case "learner":
            dist_launch_learner(prepared, SEED, None)
        case _:
            sys.exit(f"{role}: coordinator, collector or learner is expected")


if __name__ == "__main__":
    main(*sys.argv[1:])
