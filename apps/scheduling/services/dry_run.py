"""Dry runs in the web process, on its own copy of the cluster."""

from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Final
from uuid import UUID

import numpy as np
from django.conf import settings

from apps.classification.selectors import profile_named, program_scores_of
from apps.common.core.ids import uuid7
from apps.common.infrastructure.database import database_now
from apps.inventory.core.snapshot import Snapshot
from apps.profiling.selectors import is_awaited, newest_run
from apps.scheduling.core.commands import can_copy, unmeasured_profile
from apps.scheduling.core.dry_run import DryRunResult, copied_first, dry_run, without_commands
from apps.scheduling.core.registry import SHORT, make_plain, policy_of
from apps.scheduling.core.start_of_check import NewStart
from apps.scheduling.core.types import Request, Within
from apps.scheduling.selectors import ClusterFollower
from apps.scheduling.selectors.allowances import current_allowances
from apps.scheduling.selectors.backfill import waits_before_reservation_s
from apps.scheduling.selectors.default_policy import policy_in_use
from apps.scheduling.services.admission import recalled_control
from apps.scheduling.services.trial import Trial
from apps.workloads.core.reasons import Reason
from apps.workloads.core.spec import JobSpec

if TYPE_CHECKING:
    from apps.scheduling.core.starts.queue import ShapeFacts

_COPY: Final = ClusterFollower()
_LOCK: Final = Lock()
# The simulation knows no quotas and no admission control.
_NOT_SIMULATED: Final = frozenset(
    {Reason.QUOTA_EXCEEDED, Reason.QUALITY_SHORT, Reason.WAITING_FOR_BUCKET}
)


def check_job(spec: JobSpec, *, project: UUID | None = None) -> DryRunResult:
    """Predict the outcome of a submission without writing anything.

    Costs a read of the changes since the last dry run, and one decision.

    Parameters
    ----------
    spec : as it would be stored (`workloads.services.as_submitted`)
    project : to which it would be submitted; None = the job counts towards no quota
    """
    profile = profile_named(spec.application)
    with _LOCK:
        snapshot = _COPY.follow().snapshot()
        default = policy_in_use()
        if profile is None and spec.command:
            scores = program_scores_of(spec.application)
            if scores is None and _is_copied_first(spec, snapshot):
                return copied_first(spec, snapshot)
            able = snapshot.topology.platforms_for(spec.backend)
            if not able:
                return without_commands(snapshot)
            profile = unmeasured_profile(spec.application, spec.kind, able, scores)
            default = SHORT if scores is None else default
        policy = _policy(policy_of(spec, default))
        control, rng = recalled_control(snapshot), np.random.default_rng()
        trial = Trial(spec, project, snapshot, policy, control=control, rng=rng)
        return dry_run(
            spec,
            profile,
            snapshot,
            policy,
            trial.decide,
            max_sample=settings.MAX_SAMPLE,
            allowances=current_allowances(),
            longest_wait_s=settings.PATIENCE_S,
        )


def _is_copied_first(spec: JobSpec, snapshot: Snapshot) -> bool:
    copyable, topology = spec.copyable, snapshot.topology
    if not can_copy(is_copyable=copyable, backend=spec.backend, topology=topology):
        return False
    return is_awaited(newest_run(spec.application), database_now())


def check_start(
    spec: JobSpec, result: DryRunResult, *, project: UUID | None = None
) -> NewStart | None:
    """Predict when a job starts whose dry run says that it waits for units; None otherwise.

    Costs a few simulations of the queue.

    Parameters
    ----------
    project : to which it would be submitted; None = it takes turns as a project of its own
    """
    is_simulated = result.reason not in _NOT_SIMULATED or result.longest_wait_s > 0.0
    if result.outcome != "waits" or not is_simulated or result.request is None:
        return None
    # the simulation is compiled: only a web process that checks such a job imports numba
    from apps.scheduling.services.start_estimates import start_of_new  # noqa: PLC0415

    shape = _shape(spec, result.request, result, project)
    return start_of_new(shape, frozen_cluster(), np.random.default_rng())


def _shape(
    spec: JobSpec, request: Request, result: DryRunResult, project: UUID | None
) -> "ShapeFacts":
    from apps.scheduling.core.starts.queue import ShapeFacts  # noqa: PLC0415 - as above

    lacks_room = result.reason == Reason.CAPACITY_SHORT
    reserve_s = waits_before_reservation_s(request.min_units, lacks_room=lacks_room)
    patience_s = (result.longest_wait_s,) if result.longest_wait_s > 0.0 else ()
    return ShapeFacts(
        key=uuid7(),
        jobs=(uuid7(),),
        kind=spec.target.kind,
        units=request.units,
        fewest=request.min_units,
        on_one_server=request.locality is Within.SERVER,
        platforms=request.platforms,
        labels=request.labels,
        run=result.run,
        priority=spec.priority,
        project=project,
        reserve_s=max(reserve_s, result.longest_wait_s),
        patience_s=patience_s,
    )


def frozen_cluster() -> Snapshot:
    """Return an immutable snapshot of the cluster. O(U + S·N)."""
    with _LOCK:
        return _COPY.follow().frozen()


# cached, as a policy caches values derived from the topology
_policy = lru_cache(maxsize=16)(make_plain)
