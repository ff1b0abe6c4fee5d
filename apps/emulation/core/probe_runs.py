"""Short runs of sandboxed copies on emulated servers, and their measured rates.

Source: Quasar §3.2-3.4 (which runs). Every rate is the mean of noisy samples, never the true
rate. Copies fail at random.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from apps.emulation.core.truth import Truth
from apps.workloads.core.framework import setting_named

SAMPLES: Final = 8
SAMPLE_S: Final = 1.5
SETUP_S: Final = (3.0, 10.0)  # of copying and warm-up, uniform
FAILURES: Final = 0.01  # share of copies, and of ramps, that die


@dataclass(frozen=True, slots=True)
class ProbeRun:
    """One short run of a sandboxed copy.

    Attributes
    ----------
    platform : name; the highest-end platform unless the run explores another
    servers, units : number of servers, and units on each
    sources : sources of interference to measure in this run, in this order; only for the run of
        one unit on the highest-end platform
    spare : further sources, measured if ramps end early
    is_alternating : measure the tolerated score of the first source, the caused score of the
        second, and so on; else both scores of every source
    copy : number of the copy, whose runs follow one another; None = a separate copy
    setting : label of the framework setting to try, on one unit of the highest-end platform;
        empty = the default
    """

    platform: str
    servers: int
    units: int
    sources: tuple[str, ...] = ()
    spare: tuple[str, ...] = ()
    copy: int | None = None
    setting: str = ""
    is_alternating: bool = False

    @classmethod
    def of(cls, planned: Mapping[str, Any]) -> "ProbeRun":
        """Read a run of a plan (`profiling.core.plan`)."""
        return cls(
            platform=planned["platform"],
            servers=planned["servers"],
            units=planned["units"],
            sources=tuple(planned.get("sources", ())),
            spare=tuple(planned.get("spare", ())),
            is_alternating=planned.get("by_turns", False),
            copy=planned.get("copy"),
            setting=planned.get("setting", ""),
        )

    @property
    def shape(self) -> tuple[str, int, int]:
        """Platform, servers and units."""
        return self.platform, self.servers, self.units

    def __str__(self) -> str:
        servers = f"{self.servers} servers of " if self.servers > 1 else ""
        units = f"{self.units} unit{'s' if self.units > 1 else ''} on "
        return f"{units}{servers}{self.platform}{f', {self.setting}' if self.setting else ''}"


@dataclass(frozen=True, slots=True)
class MeasuredRate:
    """Mean speed of one run, 1 = one unit of the highest-end platform, and its standard error."""

    value: float
    error: float

    def over(self, other: "MeasuredRate") -> tuple[float, float]:
        """Quotient and its standard error, to first order."""
        quotient = self.value / other.value
        relative = np.hypot(self.error / self.value, other.error / other.value)
        return quotient, float(quotient * relative)


@dataclass(frozen=True, slots=True)
class CompletedRun:
    """A run that ended at `at_s`; ``rate`` is None if its copy died."""

    run: ProbeRun
    at_s: float
    rate: MeasuredRate | None


def complete_runs(
    truth: Truth, runs: Sequence[ProbeRun], failures: float, rng: np.random.Generator
) -> list[CompletedRun]:
    """Measure the rate of every run; the runs of one copy follow one another.

    Raises
    ------
    ValueError : unknown platform, or a framework setting of an application without any.
    """
    free_s: dict[int, float] = {}
    completed = []
    for i, run in enumerate(runs):
        copy = run.copy if run.copy is not None else -1 - i
        rate, setup_s = _true_rate(truth, run), rng.uniform(*SETUP_S)
        measured = _measure(rate, truth.noise.rate, rng)
        is_dead = rng.random() < failures
        free_s[copy] = free_s.get(copy, 0.0) + setup_s + (0.0 if is_dead else SAMPLES * SAMPLE_S)
        completed.append(CompletedRun(run, free_s[copy], None if is_dead else measured))
    return completed


def _true_rate(truth: Truth, run: ProbeRun) -> float:
    """Speed of a run in isolation, relative to one unit of the highest-end platform."""
    if run.platform not in truth.catalogue.names:
        raise ValueError(f"unknown platform {run.platform!r}")
    speed = float(truth.platform_speed[truth.catalogue.names.index(run.platform)])
    out = truth.scale_out.speed_up(run.servers)
    return speed * truth.scale_up.speed_up(run.units) * out * _setting_speed(truth, run.setting)


def _setting_speed(truth: Truth, setting: str) -> float:
    if not setting:
        return 1.0
    if truth.framework is None:
        raise ValueError(f"{truth.name}, a {truth.kind} application, has no framework settings")
    return truth.framework.speed(setting_named(setting))


def _measure(rate: float, noise: float, rng: np.random.Generator) -> MeasuredRate:
    samples = rate * rng.lognormal(0.0, noise, SAMPLES)
    return MeasuredRate(float(samples.mean()), float(samples.std(ddof=1) / np.sqrt(SAMPLES)))
