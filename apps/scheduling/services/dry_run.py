"""Dry runs in the web process, on its own copy of the cluster."""

from functools import lru_cache
from threading import Lock
from typing import Final

import numpy as np
from django.conf import settings

from apps.classification.selectors import profile_named
from apps.inventory.core.snapshot import Snapshot
from apps.scheduling.core.dry_run import DryRunResult, dry_run
from apps.scheduling.core.registry import make_plain, policy_of
from apps.scheduling.selectors import ClusterFollower
from apps.workloads.core.spec import JobSpec

_COPY: Final = ClusterFollower()
_LOCK: Final = Lock()


def check_job(spec: JobSpec) -> DryRunResult:
    """Predict the outcome of a submission without writing anything.

    Costs a read of the changes since the last dry run, and one decision.
    """
    profile = profile_named(spec.application)
    with _LOCK:
        snapshot = _COPY.follow().snapshot()
        policy = _policy(policy_of(spec, settings.DEFAULT_POLICY))
        rng = np.random.default_rng()
        return dry_run(spec, profile, snapshot, policy, rng, max_sample=settings.MAX_SAMPLE)


def frozen_cluster() -> Snapshot:
    """Return an immutable snapshot of the cluster. O(U + S·N)."""
    with _LOCK:
        return _COPY.follow().frozen()


# cached, as a policy caches values derived from the topology
_policy = lru_cache(maxsize=16)(make_plain)
