"""A line fitted through parameter servers: the chief hands out the steps that workers compute."""

from __future__ import annotations

import tensorflow as tf

STEPS, RATE = 200, 0.1


def main() -> None:
    """Serve, or be the chief, as the name of the pod's task says in TF_CONFIG."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type in ("worker", "ps"):
        server = tf.distribute.Server(
            resolver.cluster_spec(),
            job_name=resolver.task_type,
            task_index=resolver.task_id,
            protocol="grpc",
        )
        # Runs until the job ends with its chief.
        server.join()
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    with strategy.scope():
        slope = tf.Variable(0.0)

    @tf.function  # type: ignore[untyped-decorator]  # TensorFlow has no types
    def step() -> None:
        x = tf.random.uniform([64])
        slope.assign_add(RATE * tf.reduce_mean((3.0 * x - slope * x) * x))

    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    for _ in range(STEPS):
        coordinator.schedule(step)
    coordinator.join()
    workers = resolver.cluster_spec().num_tasks("worker")
    print(f"{workers} workers found the slope {slope.numpy():.2f}", flush=True)


if __name__ == "__main__":
    main()
