"""DI-engine's CartPole DQN with collectors that come and go while it learns.

`ditask --package=/opt/app --main=elastic.main --platform=k8s --topology=star`: the task of the pod
says what it does. The learner asks for as many collectors as keep it busy.
"""

import logging
import os
import sys
from typing import Any

import gym
from ding.config import compile_config
from ding.data import DequeBuffer
from ding.envs import BaseEnvManagerV2, DingEnvWrapper
from ding.framework import ding_init, task
from ding.framework.context import OnlineRLContext
from ding.framework.middleware import (
    ContextExchanger,
    ModelExchanger,
    OffPolicyLearner,
    StepCollector,
    data_pusher,
    eps_greedy_handler,
    interaction_evaluator,
    online_logger,
)
from ding.model import DQN
from ding.policy import DQNPolicy
from ding.utils import set_pkg_seed
from dizoo.classic_control.cartpole.config.cartpole_dqn_config import create_config, main_config

import di_orchestrator as di
from di_orchestrator import hooks


def main() -> None:
    """Do the part of this pod's task until training is over, or the pod is to leave."""
    logging.getLogger().setLevel(logging.INFO)
    job = di.job()
    learns = job.task_type == "learner"
    if "STOP_VALUE" in os.environ:  # the return at which training is over
        main_config.env.stop_value = float(os.environ["STOP_VALUE"])
    cfg = compile_config(main_config, create_cfg=create_config, auto=True, save_cfg=learns)
    ding_init(cfg)
    with di.training(reports=learns) as run, task.start(ctx=OnlineRLContext()):
        task.add_role(task.role(job.task_type))
        hooks.di_engine(task, run, samples=cfg.policy.learn.batch_size)
        if learns:
            task.use(lambda _: scale(run))
        use_dqn(cfg, seed=cfg.seed + job.rank)
        task.run()
    if learns and run.stopping:
        sys.exit("left before training was over")


def use_dqn(cfg: Any, *, seed: int) -> None:
    """DI-engine's pipeline, of which each process does what its role is.

    Args:
        seed: of this process, or all collectors would play the same episodes.
    """
    set_pkg_seed(seed, use_cuda=cfg.policy.cuda)
    model = DQN(**cfg.policy.model)
    policy = DQNPolicy(cfg.policy, model=model)
    buffer = DequeBuffer(size=cfg.policy.other.replay_buffer.replay_buffer_size)
    task.use(ContextExchanger(skip_n_iter=1))
    task.use(ModelExchanger(model))
    task.use(
        interaction_evaluator(cfg, policy.eval_mode, cartpoles(cfg, cfg.env.evaluator_env_num))
    )
    task.use(eps_greedy_handler(cfg))
    task.use(StepCollector(cfg, policy.collect_mode, cartpoles(cfg, cfg.env.collector_env_num)))
    task.use(data_pusher(cfg, buffer))
    task.use(OffPolicyLearner(cfg, policy.learn_mode, buffer))
    task.use(online_logger(train_show_freq=10))


def cartpoles(cfg: Any, count: int) -> BaseEnvManagerV2:
    """So many environments."""
    make = [lambda: DingEnvWrapper(gym.make("CartPole-v0"))] * count
    return BaseEnvManagerV2(env_fn=make, cfg=cfg.env.manager)


def scale(run: di.Training) -> None:
    """Ask for as many collectors as keep the learner busy."""
    if (there := run.rescale()) is not None:
        logging.info("%d collectors from now on", there)
