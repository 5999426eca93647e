"""Entry point of the operator, and the lifetime of one replica."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack

import structlog
import uvloop

from di_api.names import OPERATOR_NAME
from di_kube.client import KubeClient
from di_kube.config import ConfigError as KubeConfigError
from di_kube.config import KubeConfig
from di_kube.config import load_config as load_kube_config
from di_operator.allocator.policies.registry import PolicyError
from di_operator.config import Config, load_config
from di_operator.leadership.election import Timing, elect
from di_operator.leadership.release_claim import ClaimTiming, claim
from di_operator.metrics.metrics import Metrics
from di_operator.process.clock import Clock, ServerClock, SystemClock
from di_operator.process.concurrency import CONNECTIONS
from di_operator.process.exit_deadline import ExitDeadline, exit_at_once
from di_operator.process.health import serve_health
from di_operator.process.lease_state import Loss, NotLeading
from di_operator.process.supervision import Supervisor
from di_operator.runtime import Runtime
from di_operator.wiring import (
    Base,
    beside,
    controller,
    duties,
    expose,
    expose_jobs,
    observe,
    reading,
)
from di_service.logs import configure_logs
from di_service.settings import SettingsError, refuse_to_start
from di_service.tracing import tracing

log = structlog.get_logger(__name__)


async def operate(
    *,
    config: Config,
    kube: KubeConfig,
    clock: Clock,
    rng: random.Random,
    stop: asyncio.Event,
    timing: Timing | None = None,
    claim_timing: ClaimTiming | None = None,
    on_serving: Callable[[int], None] = lambda port: None,
    on_ending: Callable[[], None] = lambda: None,
) -> None:
    """Run one replica until `stop` is set.

    `on_serving` is called with the port of the health endpoint, a free one if the configuration has
    0. `on_ending` is called when the shutdown begins, perhaps more than once.

    Raises:
        NotLeading: the lease was lost, or the claim on the jobs.
        PolicyError: the allocation policy cannot be used.
        OSError: the health endpoint's address cannot be used.
    """
    # All parts read this clock from here on, because the local wall clock can be wrong.
    server_clock = ServerClock(clock)
    clock, on_date = server_clock, server_clock.observe
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            KubeClient(config=kube, connections=CONNECTIONS, on_date=on_date)
        )
        # A lease renewal must not queue behind a thousand creates for a connection.
        lease_client = await stack.enter_async_context(
            KubeClient(config=kube, connections=2, on_date=on_date)
        )
        traced = tracing(config.traces, service=OPERATOR_NAME, ratio=config.trace_ratio)
        stack.push_async_callback(asyncio.to_thread, traced.close)
        loss, metrics = Loss(), Metrics()
        leadership = elect(
            config, lease_client, timing=timing or Timing(), clock=clock, rng=rng, loss=loss
        )
        base = Base(
            config=config,
            client=client,
            clock=clock,
            rng=rng,
            loss=loss,
            leadership=leadership,
            metrics=metrics,
        )
        seen = observe(base)
        others = beside(base, seen)
        read = reading(base, seen, others)
        runtime = Runtime(
            caches=seen.caches,
            informers=seen.informers,
            queue=seen.queue,
            controller=controller(base, seen, others, read, traced),
            recorder=seen.recorder,
            kueue=seen.kueue,
            polled=seen.polled,
            scope=claim(
                config,
                lease_client,
                timing=claim_timing or ClaimTiming(),
                clock=clock,
                rng=rng,
                loss=loss,
            ),
            leadership=leadership,
            duties=duties(base, seen, others, read),
            supervisor=Supervisor(clock=clock, rng=rng, observer=metrics, loss=loss),
            loss=loss,
            sync_period=config.sync_period,
            clock=clock,
            on_ending=on_ending,
        )
        expose(metrics, seen.queue, seen.caches, leadership, seen.suspects)
        expose_jobs(base, seen, others.scheduler)
        for tally in (client.requests, lease_client.requests):
            metrics.requests(tally)
        port = await stack.enter_async_context(
            serve_health(
                address=config.health_bind,
                alive=runtime.stuck,
                ready=runtime.unready,
                begin_metrics=metrics.begin,
                monotonic=clock.monotonic,
            )
        )
        on_serving(port)
        await runtime.run(stop)


def main() -> None:
    """Run the operator; exit code 0 after SIGTERM, 1 when the lease is lost or the shutdown took
    too long, 2 for an invalid setting.
    """
    clock = SystemClock()
    # For jitter and names of this replica, nothing secret.
    rng = random.Random()
    try:
        config = load_config(sys.argv[1:], os.environ, random_identity=_identity)
        kube = load_kube_config(config.kubeconfig, clock=clock.monotonic)
    except (SettingsError, KubeConfigError) as error:
        refuse_to_start(OPERATOR_NAME, error)
    configure_logs(config.log_level)
    # Half of the operator's CPU time goes into TLS and sockets, where libuv needs a third less.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        code = runner.run(_run(config, kube, clock, rng))
    exit_at_once(code)


async def _run(config: Config, kube: KubeConfig, clock: Clock, rng: random.Random) -> int:
    stop = asyncio.Event()
    deadline = ExitDeadline()

    def end() -> None:
        stop.set()
        deadline.start()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    log.info("starting", identity=config.identity, server=kube.server)
    try:
        await operate(
            config=config, kube=kube, clock=clock, rng=rng, stop=stop, on_ending=deadline.start
        )
    except NotLeading as error:
        log.error("exiting", error=str(error))
        return 1
    except PolicyError as error:
        log.error("cannot allocate", error=str(error))
        return 2
    except OSError as error:
        log.error("cannot serve health", error=str(error))
        return 2
    log.info("stopped")
    return 0


def _identity() -> str:
    return f"{socket.gethostname()}_{secrets.token_hex(4)}"


if __name__ == "__main__":
    main()
