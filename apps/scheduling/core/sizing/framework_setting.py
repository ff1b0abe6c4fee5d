"""Choice of the framework setting that a job is sized for and launched with."""

import math
from typing import Final

import numpy as np

from apps.classification.core.estimates import Estimate
from apps.classification.core.profile import Profile
from apps.inventory.core.snapshot import Floats
from apps.workloads.core.framework import DEFAULT_SETTING, setting_named

UNCHANGED: Final = Estimate(1.0, 1.0, 1.0)


def best_setting(profile: Profile, unit_memory_bytes: float) -> tuple[str, Estimate]:
    """Return the setting with the highest pessimistic speed; empty if none beats the default.

    Considers settings whose tasks fit into the memory of a unit: the memory requested, or that of
    the default setting (Quasar §3.2, Table 3).

    Parameters
    ----------
    unit_memory_bytes : requested by the job; 0 = none
    """
    room = max(unit_memory_bytes, DEFAULT_SETTING.memory_bytes)
    fits = np.array([setting_named(s).memory_bytes <= room for s in profile.settings], dtype=bool)
    if not fits.any():
        return "", UNCHANGED
    best = profile.settings[int(np.argmax(np.where(fits, profile.framework.low, -np.inf)))]
    speed = profile.speed_set(best)
    return (best, speed) if speed.low > 1.0 else ("", UNCHANGED)


def times(rates: tuple[Floats, Floats, Floats], speed: Estimate) -> tuple[Floats, Floats, Floats]:
    """Multiply rates by an independent factor: the half widths of the logs add in squares."""
    rate, low, high = rates
    below = np.hypot(np.log(rate / low), math.log(speed.value / speed.low))
    above = np.hypot(np.log(high / rate), math.log(speed.high / speed.value))
    value = rate * speed.value
    return value, value * np.exp(-below), value * np.exp(above)
