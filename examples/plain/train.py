"""A loop of one's own: a line is fitted to noisy points, from a checkpoint if there is one."""

from __future__ import annotations

import json
import random

import di_orchestrator as di

STEPS, BATCH = 300, 32
SLOPE, OFFSET = 3.0, -1.0


def main() -> None:
    """Fit, and say how well."""
    state = {"step": 0, "slope": 0.0, "offset": 0.0}
    with di.training(total_steps=STEPS, save_every=60) as run:
        if (found := run.checkpoint.restore()) is not None:
            state = json.loads(found.read_text())
        while state["step"] < STEPS and not run.stopping:
            with run.iteration(samples=BATCH):
                loss = learn(state)
            run.report(state["step"], loss=loss)
            if run.checkpoint.is_due:
                run.save(lambda path: path.write_text(json.dumps(state)))
    print(f"{state['slope']:.2f} x + {state['offset']:.2f} after {state['step']} steps", flush=True)


def learn(state: dict[str, float]) -> float:
    """One step of gradient descent; returns the loss before it."""
    points = [(x, SLOPE * x + OFFSET + random.gauss(0, 0.1)) for x in uniform(BATCH)]
    errors = [(x, state["slope"] * x + state["offset"] - y) for x, y in points]
    state["slope"] -= 0.1 * sum(2 * error * x for x, error in errors) / BATCH
    state["offset"] -= 0.1 * sum(2 * error for _, error in errors) / BATCH
    state["step"] += 1
    return sum(error**2 for _, error in errors) / BATCH


def uniform(count: int) -> list[float]:
    """So many numbers between -1 and 1."""
    return [random.uniform(-1, 1) for _ in range(count)]


if __name__ == "__main__":
    main()
