"""Pictures of simulations: who was where when, and how policies compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from math import nan
from pathlib import Path
from types import MappingProxyType

import numpy as np
from matplotlib.figure import Figure

from di_operator.allocator.sharing.fair_shares import Shares, fill_by_weight
from di_simulator.fairness import gpus_by_tenant, jain_by_round
from di_simulator.results import Result, Summary
from di_simulator.workload import tenant_of

# Colours by application, from matplotlib's own qualitative map, in a fixed order.
_COLOURS = "tab10"
# Columns of the heat map; rounds are thinned to as many.
_COLUMNS = 600
_MARGIN = 0.4


def draw_heat_map(result: Result, path: Path) -> None:
    """Write a PNG of the nodes over time; each node has a line for each of its GPUs.

    The colour is the application, white is idle. Raises OSError.
    """
    applications = sorted({job.application for job in result.jobs})
    kind = {job.name: applications.index(job.application) for job in result.jobs}
    lines = list(accumulate(result.nodes.values(), initial=0))
    thinned = result.timeline[:: max(1, len(result.timeline) // _COLUMNS)]
    picture = np.full((lines[-1], len(thinned)), np.nan)
    for column, (_, tenants) in enumerate(thinned):
        for first, node in zip(lines, result.nodes, strict=False):
            for slot, name in enumerate(sorted(tenants.get(node, ()))):
                picture[first + slot, column] = kind[name]

    figure = Figure(figsize=(11, 6), layout="constrained")
    axes = figure.add_subplot()
    hours = (thinned[0][0] / 3600, thinned[-1][0] / 3600) if thinned else (0.0, 1.0)
    image = axes.imshow(
        picture,
        aspect="auto",
        interpolation="nearest",
        cmap=_COLOURS,
        vmin=-0.5,
        vmax=9.5,
        extent=(hours[0], hours[1], lines[-1], 0),
    )
    for boundary in lines[1:-1]:
        axes.axhline(boundary, color="white", linewidth=_MARGIN)
    axes.set_yticks([(low + high) / 2 for low, high in pairwise(lines)], list(result.nodes))
    axes.tick_params(axis="y", labelsize=7, length=0)
    axes.set(xlabel="hours", title=_title(result.summary))
    bar = figure.colorbar(image, ax=axes, ticks=range(len(applications)))
    bar.ax.set_ylim(-0.5, len(applications) - 0.5)
    bar.ax.set_yticklabels(applications)
    _write(figure, path)


def draw_comparison(summaries: Sequence[Summary], path: Path) -> None:
    """Write a PNG that sets policies side by side: bars, and a table of the figures."""
    policies = list(dict.fromkeys(summary.policy for summary in summaries))
    workloads = list(dict.fromkeys(summary.workload for summary in summaries))
    found = {(summary.workload, summary.policy): summary for summary in summaries}
    figure = Figure(figsize=(11, 3 + 0.25 * len(summaries) + 2), layout="constrained")
    bars, table = figure.subplots(2, 1, height_ratios=[3, 0.5 + 0.25 * len(summaries)])
    width = 0.8 / len(policies)
    for offset, policy in enumerate(policies):
        heights = [
            found[workload, policy].average if (workload, policy) in found else 0.0
            for workload in workloads
        ]
        places = np.arange(len(workloads)) + (offset - (len(policies) - 1) / 2) * width
        bars.bar(places, heights, width=width, label=policy)
    bars.set_xticks(range(len(workloads)), workloads)
    bars.set_ylabel("average completion time, s")
    bars.legend()
    table.axis("off")
    table.table(
        cellText=[
            [
                s.workload,
                s.policy,
                *(f"{v:.0f}" for v in (s.average, s.p50, s.p99, s.makespan)),
                f"{s.restarts:.1f}",
                f"{s.utilisation:.0%}",
                f"{s.decision_mean * 1e3:.1f}",
            ]
            for s in summaries
        ],
        colLabels=[
            "workload",
            "policy",
            "average",
            "p50",
            "p99",
            "makespan",
            "restarts",
            "utilisation",
            "decision, ms",
        ],
        loc="upper center",
        cellLoc="right",
    )
    _write(figure, path)


def draw_tenants(results: Mapping[str, Result], shares: Shares | None, path: Path) -> None:
    """Write a PNG of the GPUs that each tenant has over time, a panel for each result by title.

    Dashed, with `shares`: what it is entitled to, if it wants all that its jobs can use.
    Raises OSError.
    """
    figure = Figure(figsize=(11, 0.5 + 2.5 * len(results)), layout="constrained")
    panels = figure.subplots(len(results), 1, squeeze=False, sharex=True)[:, 0]
    for axes, (title, result) in zip(panels, results.items(), strict=True):
        hours = [time / 3600 for time, _ in result.timeline]
        has = [
            Counter(tenant_of(name) for names in nodes.values() for name in names)
            for _, nodes in result.timeline
        ]
        for number, tenant in enumerate(result.by_tenant):
            colour = f"C{number}"
            label = f"{tenant}: {result.by_tenant[tenant]:.0f} s"
            axes.step(hours, [each[tenant] for each in has], color=colour, label=label)
            if shares is not None:
                parts = [
                    fill_by_weight(wanted, shares, result.capacity).get(tenant, 0.0)
                    for wanted in result.wanted
                ]
                axes.step(hours, parts, color=colour, linestyle="--", linewidth=0.8)
        axes.set(ylabel="GPUs", title=title, ylim=(0, result.capacity * 1.05))
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1), title="average completion time")
    panels[-1].set_xlabel("hours")
    _write(figure, path)


def draw_queues(
    results: Mapping[str, Result],
    weights: Mapping[str, float],
    path: Path,
    *,
    parts: Mapping[str, float] = MappingProxyType({}),
) -> None:
    """Write a PNG of the GPUs that each tenant has over time, a panel for each result by title, and
    beneath them Jain's index of what tenants have for their weight, while two or more want more.

    With `parts`, the dominant share that a replica of each tenant is, these in place of GPUs.
    Raises OSError.
    """
    figure = Figure(figsize=(11, 2.5 + 2.5 * len(results)), layout="constrained")
    panels = figure.subplots(len(results) + 1, 1, squeeze=False, sharex=True)[:, 0]
    for number, (axes, (title, result)) in enumerate(
        zip(panels[:-1], results.items(), strict=True)
    ):
        hours = [time / 3600 for time, _ in result.timeline]
        has = gpus_by_tenant(result)
        for tenant, average in result.by_tenant.items():
            label = f"{tenant}: {average:.0f} s"
            axes.step(hours, [each[tenant] * parts.get(tenant, 1) for each in has], label=label)
        what, most = ("dominant share", 1.0) if parts else ("GPUs", result.capacity)
        axes.set(ylabel=what, title=title, ylim=(0, most * 1.05))
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1), title="average completion time")
        by_round = jain_by_round(result, weights, parts)
        index = [nan if found is None else found for found in by_round]
        panels[-1].step(hours, index, color=f"C{number + len(weights)}", label=title)
    panels[-1].set(xlabel="hours", ylabel="Jain index", ylim=(0, 1.05))
    panels[-1].legend(loc="upper left", bbox_to_anchor=(1, 1))
    _write(figure, path)


def _write(figure: Figure, path: Path) -> None:
    # Without pyplot there is no window system to look for and no state to clean up.
    figure.savefig(path, format="png", dpi=100, metadata={"Software": None})


def _title(summary: Summary) -> str:
    return (
        f"{summary.workload}, {summary.policy}: average {summary.average:.0f} s,"
        f" p99 {summary.p99:.0f} s, makespan {summary.makespan:.0f} s"
    )
