"""Replay of a workload on an emulated cluster with production's own objects.

Policies, sizing, requests, commit rules and the needs of waiting jobs are those of production;
the emulator's engine runs the jobs. Decisions take modelled time; agents decide on stale copies,
and lose conflicts. A job that cannot start never blocks another, except under `Admission.FIFO`.
"""

from collections.abc import Callable, Mapping
from typing import Final

from apps.emulation.core.worlds import world_named
from apps.scheduling.core.policy_errors import PolicyFailedError
from apps.scheduling.core.registry import UnknownPolicyError, make
from apps.scheduling.core.types import Policy
from apps.testbed.core.demo_cluster import cluster_of
from apps.testbed.core.replay.demand import Demand
from apps.testbed.core.replay.errors import ReplayCancelledError, ReplayError
from apps.testbed.core.replay.loop import ReplayLoop
from apps.testbed.core.replay.model import (
    ReplayCluster,
    ReplayOptions,
    ReplayProgress,
    ReplayResult,
)
from apps.testbed.core.replay.queueing.registry import TESTBED_POLICIES, UNUSED, unused_options
from apps.testbed.core.replay.queueing.schedulers import make_queueing
from apps.testbed.core.replay.queueing.types import QueueingPolicy
from apps.testbed.core.replay.rebalancing import Rebalancer
from apps.testbed.core.replay.results import result_of
from apps.testbed.core.replay.workloads import Workload

MAX_SEEDS: Final = 1_000
LARGEST_SEED: Final = 2**32

Clock = Callable[[], float]
ShowProgress = Callable[[ReplayProgress], None]
IsCancelled = Callable[[], bool]


def run(
    cluster: ReplayCluster,
    load: Workload,
    options: ReplayOptions,
    progress: ShowProgress | None = None,
    is_cancelled: IsCancelled | None = None,
    *,
    clock: Clock | None = None,
) -> ReplayResult:
    """Replay a workload; deterministic but for the wall time.

    Parameters
    ----------
    progress : called about a thousand times in a run
    is_cancelled : asked as often
    clock : wall clock in seconds, for `RunRow.wall_seconds`; None = NaN

    Raises
    ------
    ReplayError : an unknown policy, world or kind of application.
    ReplayCancelledError : ``is_cancelled`` returned True.
    """
    began = clock() if clock else float("nan")
    policy = policy_of(options)
    try:
        world = world_named(options.world)
    except ValueError as error:
        raise ReplayError(str(error)) from error
    emulated = cluster_of(cluster.platforms, cluster.platform, cluster.rack, options.seed, world)
    demand = Demand(load, cluster, emulated, options)
    planner = None
    if options.weights is not None:
        planner = Rebalancer(
            demand, emulated.machines, options.weights, interval_s=options.rebalance_s
        )
    loop = ReplayLoop(emulated, demand, policy, options, planner=planner)
    step = max(1, len(load) // 500)
    for turn, now in enumerate(loop.turns()):
        if turn % step:
            continue
        if is_cancelled is not None and is_cancelled():
            raise ReplayCancelledError(f"cancelled at {now:.0f} s of the replay")
        if progress is not None:
            progress(ReplayProgress(loop.ended, len(load), now))
    return result_of(loop, demand, emulated.machines, (clock() if clock else began) - began)


def policy_of(options: ReplayOptions) -> Policy | QueueingPolicy:
    """Return the policy of a replay.

    Raises
    ------
    ReplayError : as `policy_named`; or the policy does not use an option.
    """
    policy = policy_named(options.policy, options.parameters)
    given = {name: getattr(options, name) for name in UNUSED}
    if isinstance(policy, QueueingPolicy) and (names := unused_options(given)):
        raise ReplayError(
            f"{policy.name} has queues of its own, and does not use {', '.join(names)}"
        )
    return policy


def policy_named(
    name: str, parameters: Mapping[str, float] | None = None
) -> Policy | QueueingPolicy:
    """Return a policy of production, or of the testbed.

    Raises
    ------
    ReplayError : an unknown policy, or a parameter that it does not take; the message says what is
        accepted. Or a policy that raises an error.
    """
    try:
        if name in TESTBED_POLICIES:
            return make_queueing(name, parameters)
        return make(name, parameters)
    except UnknownPolicyError as error:
        known = ", ".join(sorted(TESTBED_POLICIES))
        raise ReplayError(f"{error}; and, in replays, {known}") from error
    except PolicyFailedError as error:
        raise ReplayError(error.detail) from error
    except ValueError as error:
        raise ReplayError(str(error)) from error


def seeds_of(text: str) -> list[int]:
    """Read seeds such as ``1-5`` or ``1,3,9``.

    Raises
    ------
    ReplayError : not such a list.
    """
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not all(_is_seed(each) for each in ((first, last) if dash else (first,))):
            raise ReplayError(f"seeds must look like 1-5 or 1,3,9 and be below 2^32, not {text!r}")
        each = range(int(first), int(last or first) + 1)
        if not 1 <= len(each) <= MAX_SEEDS - len(seeds):
            raise ReplayError(f"seeds must be 1 .. {MAX_SEEDS:,} in all, not {text!r}")
        seeds += each
    if len(set(seeds)) < len(seeds):
        raise ReplayError(f"seeds must be different, not {text!r}")
    return seeds


def _is_seed(text: str) -> bool:
    return text.isdecimal() and len(text) <= len(str(LARGEST_SEED)) and int(text) < LARGEST_SEED
