"""Which setting of its framework a job is sized for, and launched with."""

import math
from typing import Final

import numpy as np

from apps.classification.core.profile import Estimate, Profile
from apps.inventory.core.snapshot import Floats
from apps.workloads.core.framework import DEFAULT_SETTING, setting_named

UNCHANGED: Final = Estimate(1.0, 1.0, 1.0)


def best_setting(profile: Profile, unit_memory_bytes: float) -> tuple[str, Estimate]:
    """Choose the framework setting that is surely fastest; empty where nothing is better.

    By the pessimistic end of its interval, among those whose tasks find room in the memory of a
    unit: what the job asks for, else what the default needs (Quasar §3.2, Table 3).

    Parameters
    ----------
    unit_memory_bytes : asked for by the job; 0 = not
    """
    room = max(unit_memory_bytes, DEFAULT_SETTING.memory_bytes)
    fits = np.array([setting_named(s).memory_bytes <= room for s in profile.settings], dtype=bool)
    if not fits.any():
        return "", UNCHANGED
    best = profile.settings[int(np.argmax(np.where(fits, profile.framework_low, -np.inf)))]
    speed = profile.speed_set(best)
    return (best, speed) if speed.low > 1.0 else ("", UNCHANGED)


def times(rates: tuple[Floats, Floats, Floats], speed: Estimate) -> tuple[Floats, Floats, Floats]:
    """Rates and their ends, times an independent factor: half widths of logarithms in squares."""
    rate, low, high = rates
    below = np.hypot(np.log(rate / low), math.log(speed.value / speed.low))
    above = np.hypot(np.log(high / rate), math.log(speed.high / speed.value))
    value = rate * speed.value
    return value, value * np.exp(-below), value * np.exp(above)
