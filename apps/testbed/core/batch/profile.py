"""Free processors over the future, as a step function; compiled."""

from typing import Any, NamedTuple

import numpy as np

from apps.common.core.compiled import jit
from apps.testbed.core.traces import Floats, Ints


class Profile(NamedTuple):
    """Steps in the order of time, the first ``size[0]``; the last one lasts for ever.

    Attributes
    ----------
    at : (capacity,) start of each step
    free : (capacity,) processors free during it
    size : (1,) steps in use
    """

    at: Floats
    free: Ints
    size: Ints


def empty_profile(jobs: int, processors: int) -> Profile:
    """Return a profile with all processors free, with room for two steps of each job."""
    capacity = 2 * jobs + 4
    profile = Profile(
        np.full(capacity, -np.inf),
        np.zeros(capacity, dtype=np.int64),
        np.ones(1, dtype=np.int64),
    )
    profile.free[0] = processors
    return profile


@jit(makes_arrays=False)
def earliest(profile: Profile, now: float, processors: int, seconds: float) -> Any:
    """Earliest start from ``now`` on of a job that needs processors for some seconds."""
    start = now
    for step in range(profile.size[0]):
        is_last = step + 1 == profile.size[0]
        if not is_last and profile.at[step + 1] <= start:
            continue
        if profile.at[step] >= start + seconds and profile.at[step] > start:
            break
        if profile.free[step] < processors:
            if is_last:
                return np.inf
            start = profile.at[step + 1]
    return start


@jit(makes_arrays=False)
def occupy(profile: Profile, start: float, end: float, processors: int) -> None:
    """Take processors from ``start`` to ``end``; a negative number gives them back."""
    if end <= start:
        return
    first = _split(profile, start)
    last = _split(profile, end)
    for step in range(first, last):
        profile.free[step] -= processors
    _merge(profile, first, last)


@jit(makes_arrays=False)
def forget(profile: Profile, now: float) -> None:
    """Drop the steps that end before ``now``."""
    gone = 0
    while gone + 1 < profile.size[0] and profile.at[gone + 1] <= now:
        gone += 1
    if gone == 0:
        return
    for step in range(gone, profile.size[0]):
        profile.at[step - gone] = profile.at[step]
        profile.free[step - gone] = profile.free[step]
    profile.size[0] -= gone


@jit(makes_arrays=False)
def _split(profile: Profile, at: float) -> Any:
    """Return the step that starts at a time; make one if there is none."""
    step = profile.size[0]
    while step > 0 and profile.at[step - 1] >= at:
        step -= 1
    if step < profile.size[0] and profile.at[step] == at:
        return step
    for later in range(profile.size[0], step, -1):
        profile.at[later] = profile.at[later - 1]
        profile.free[later] = profile.free[later - 1]
    profile.at[step] = at
    profile.free[step] = profile.free[step - 1] if step > 0 else profile.free[step + 1]
    profile.size[0] += 1
    return step


@jit(makes_arrays=False)
def _merge(profile: Profile, first: int, last: int) -> None:
    """Join the steps around ``first`` and ``last`` with equal neighbours."""
    for step in (last, first):
        if step > 0 and profile.free[step] == profile.free[step - 1]:
            for later in range(step, profile.size[0] - 1):
                profile.at[later] = profile.at[later + 1]
                profile.free[later] = profile.free[later + 1]
            profile.size[0] -= 1
