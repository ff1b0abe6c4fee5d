"""Dry runs in the web process, on a copy of the cluster kept for them."""

from functools import lru_cache
from threading import Lock
from typing import Final

import numpy as np
from django.conf import settings

from apps.classification.selectors import profile_named
from apps.inventory.core.snapshot import Snapshot
from apps.scheduling.core.check import Checked, check
from apps.scheduling.core.registry import make_plain
from apps.scheduling.selectors import ClusterCopy
from apps.workloads.core.spec import JobSpec

_COPY: Final = ClusterCopy()
_TURN: Final = Lock()


def check_job(spec: JobSpec) -> Checked:
    """Say what would happen to a job submitted now; writes nothing.

    Costs a read of what changed since the last check, and one decision.
    """
    profile = profile_named(spec.application)
    with _TURN:
        snapshot = _COPY.follow().snapshot()
        policy = _policy(settings.DEFAULT_POLICY)
        return check(spec, profile, snapshot, policy, np.random.default_rng())


def frozen_cluster() -> Snapshot:
    """Return the cluster as it is now, not to change under the caller. O(U + S·N)."""
    with _TURN:
        return _COPY.follow().frozen()


# what a policy works out of the topology is kept in it
_policy = lru_cache(maxsize=1)(make_plain)
