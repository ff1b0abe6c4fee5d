"""Translation of launches into orders of the engine."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from apps.emulation.core.draws import LATENCY_CRITICAL
from apps.emulation.core.events import EngineOrder
from apps.emulation.core.stragglers import task_seed
from apps.emulation.core.truth import BLOCK_BYTES, Truth
from apps.execution.backends.emulated.port import LaunchOrder
from apps.workloads.core.framework import setting_named

_AT_ONCE_S: Final = 0.001  # durations are positive


class UnknownServerError(ValueError):
    """A launch names a server that is not emulated."""


def engine_order(
    launch: LaunchOrder, truth: Truth, server_index: Mapping[int, int], seed: int
) -> EngineOrder:
    """Translate a launch into an order of the engine.

    The work is the input over the application's bytes per second. A job without input, duration
    or rate target has one block per task. A job with a rate target (queries or instructions per
    second) and no input runs until its duration ends or it is cancelled. A faster framework
    setting reduces the work. The durations of its tasks follow from the cluster's seed and the
    launch, so a restarted emulator draws the same ones.

    Raises
    ------
    UnknownServerError : names the server.
    ValueError : no server, a server named twice, or an unknown setting.
    """
    if len({server for server, _ in launch.parts}) != max(1, len(launch.parts)):
        raise ValueError(f"a launch must name its servers, each once, got {launch.parts}")
    unknown = [server for server, _ in launch.parts if server not in server_index]
    if unknown:
        raise UnknownServerError(f"server {unknown[0]} is not emulated")
    work_s = _work_s(launch, truth) / _setting_speed(launch, truth)
    return EngineOrder(
        key=launch.launch,
        truth=truth,
        parts=[(server_index[server], units) for server, units in launch.parts],
        work_s=work_s,
        tasks=launch.tasks if work_s < float("inf") else None,
        duration_s=launch.duration_s,
        load=float(launch.target.get("qps", 0.0)),
        percentile=float(launch.target.get("percentile", 99.0)),
        done_share=launch.done_share,
        task_seed=task_seed(seed, launch.launch),
    )


def resumed(order: EngineOrder, *, ran_s: float) -> EngineOrder:
    """Return the order of a launch that has run for some cluster seconds.

    Its work is what is left, as is the duration of a job that only has a duration
    (`EngineOrder.done_share`). A duration that limits work is reduced by the time it ran.
    """
    if order.duration_s is None or math.isinf(order.work_s):
        return order
    return replace(order, duration_s=max(order.duration_s - ran_s, _AT_ONCE_S))


def _setting_speed(launch: LaunchOrder, truth: Truth) -> float:
    if not launch.setting or truth.framework is None:
        return 1.0
    return truth.framework.speed(setting_named(launch.setting))


def _work_s(launch: LaunchOrder, truth: Truth) -> float:
    keeps_rate = launch.target["kind"] in {"throughput_latency", "ips"}
    if truth.kind == LATENCY_CRITICAL:
        return float("inf")
    if launch.input_bytes > 0:
        return launch.input_bytes / truth.bytes_per_s
    if keeps_rate or launch.duration_s is not None:
        return float("inf")
    return (launch.tasks or 1) * BLOCK_BYTES / truth.bytes_per_s
