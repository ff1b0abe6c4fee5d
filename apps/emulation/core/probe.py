"""Profiling runs on emulated servers: what sandboxed copies of an application show in a minute.

Source: Paragon §3.3 and P3 (microbenchmarks), Quasar §3.2-3.4 (which runs). Every number comes
out of noisy samples, never straight from the truth, and now and then a copy or a microbenchmark
dies. What decides how far to ramp, and when a source is given up, is `profiling.core`: the same
as on real servers.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from typing import Any, Final

import numpy as np

from apps.common.core.interference import SOURCES
from apps.emulation.core.microbenchmarks import SAMPLE_S as RAMP_SAMPLE_S
from apps.emulation.core.microbenchmarks import caused, tolerated
from apps.emulation.core.truth import Truth
from apps.profiling.core.plan import takes_another_source
from apps.profiling.core.ramp import Missing, ProbeFailedError, Threshold
from apps.workloads.core.framework import DEFAULT_SETTING, LABELS, setting_named

SAMPLES: Final = 8
SAMPLE_S: Final = 1.5
SAMPLE_NOISE: Final = 0.04  # of one sample of a rate
SETUP_S: Final = (3.0, 10.0)  # copying and warming up, uniform
FAILURES: Final = 0.01  # share of copies, and of ramps, that die
SIZES: Final = (1, 2, 4, 8, 16, 32)  # columns of the scale-up matrix
SERVERS: Final = (*SIZES, 64, 100)  # columns of the scale-out matrix


@dataclass(frozen=True, slots=True)
class ProbeRun:
    """One short run.

    Attributes
    ----------
    platform : name; the highest-end one unless it explores another
    servers, units : how many servers, and units on each
    sources : sources of interference whose microbenchmarks the run of one unit on the highest-end
        platform carries, one after the other
    spare : further ones, for which there is time where ramps stop early
    by_turns : the first source tells what is tolerated of it, the second what is caused, and so
        on; else each tells both
    copy : runs of one sandboxed copy follow one another; None = a copy of its own
    setting : label of the framework setting it tries, on one unit of the highest-end platform;
        empty = the default
    """

    platform: str
    servers: int
    units: int
    sources: tuple[str, ...] = ()
    spare: tuple[str, ...] = ()
    copy: int | None = None
    setting: str = ""
    by_turns: bool = False

    @classmethod
    def of(cls, asked: Mapping[str, Any]) -> "ProbeRun":
        """Read a run of a plan (`profiling.core.plan`)."""
        return cls(
            platform=asked["platform"],
            servers=asked["servers"],
            units=asked["units"],
            sources=tuple(asked.get("sources", ())),
            spare=tuple(asked.get("spare", ())),
            by_turns=asked.get("by_turns", False),
            copy=asked.get("copy"),
            setting=asked.get("setting", ""),
        )


@dataclass(frozen=True, slots=True)
class Measured:
    """One cell of one utility matrix.

    Attributes
    ----------
    matrix, column : e.g. ("scale_up", "8"); see docs/emulation.md for the units of each matrix
    standard_error : of `value`, in its unit
    """

    matrix: str
    column: str
    value: float
    standard_error: float
    samples: int


@dataclass(frozen=True, slots=True)
class Unmeasured:
    """One cell that was probed in vain, and why."""

    matrix: str
    column: str
    reason: str


@dataclass(frozen=True, slots=True)
class Step:
    """One run, or one source, that is over.

    Attributes
    ----------
    at_s : cluster seconds since the start; steps come in this order
    done, total : steps over with this one, and in all as far as is known now
    what : in a few words
    failed : why all is over and nothing was measured; empty = it is not
    """

    at_s: float
    done: int
    total: int
    what: str
    cells: tuple[Measured, ...] = ()
    missing: tuple[Unmeasured, ...] = ()
    failed: str = ""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What a set of runs measured, what not, and how many cluster seconds it took."""

    cells: tuple[Measured, ...]
    missing: tuple[Unmeasured, ...]
    duration_s: float


def probe(
    truth: Truth,
    runs: Sequence[ProbeRun],
    rng: np.random.Generator,
    *,
    budget_s: float | None = None,
    failures: float = 0.0,
) -> ProbeResult:
    """Run a plan to its end; parameters as of `probing`.

    Raises
    ------
    ProbeFailedError : the run all others are compared to died.
    ValueError : as `probing`.
    """
    steps = list(probing(truth, runs, rng, budget_s=budget_s, failures=failures))
    if steps[-1].failed:
        raise ProbeFailedError(steps[-1].failed)
    return ProbeResult(
        tuple(cell for step in steps for cell in step.cells),
        tuple(gap for step in steps for gap in step.missing),
        steps[-1].at_s,
    )


def probing(
    truth: Truth,
    runs: Sequence[ProbeRun],
    rng: np.random.Generator,
    *,
    budget_s: float | None = None,
    failures: float = 0.0,
) -> Iterator[Step]:
    """Run a plan, all copies at once; a ramp is computed when its step is asked for.

    Parameters
    ----------
    runs : among them one unit of the highest-end platform, to which other sizes are compared; a
        run on another platform or on several servers is compared to the one of as many units
    budget_s : cluster seconds within which another source is begun (`takes_another_source`); None
        = all planned ones and no spare one
    failures : share of copies, and of ramps, that die

    Raises
    ------
    ValueError : no such run, or an unknown platform or source.
    """
    best = truth.catalogue.names[truth.catalogue.reference]
    alike = (i for i, run in enumerate(runs) if _shape(run) == (best, 1, 1) and not run.setting)
    base = next(alike, None)
    if base is None:
        raise ValueError(f"a plan needs a run of one unit on {best}, got {list(runs)}")
    unknown = {*runs[base].sources, *runs[base].spare} - set(SOURCES)
    if unknown:
        raise ValueError(f"unknown sources {', '.join(sorted(unknown))}")
    plan = _Plan(truth, best, _tried(truth, runs, failures, rng), base)
    alone = [_unlike(plan, run) for run in runs]
    if any(alone):
        raise ValueError(next(filter(None, alone)))
    return _steps(plan, _Ramps(truth, rng, failures, budget_s))


def exhaustive(
    truth: Truth, rng: np.random.Generator, *, failures: float = 0.0
) -> tuple[Measured, ...]:
    """Every column of every matrix, with the same noise: the offline library of P1 and Q2.

    A probe that fails or does not decide leaves its cell out.

    Raises
    ------
    ProbeFailedError : the run all others are compared to died.
    """
    best = truth.catalogue.names[truth.catalogue.reference]
    runs = [ProbeRun(best, 1, 1, SOURCES)]
    runs += [ProbeRun(best, 1, units) for units in SIZES[1:]]
    runs += [ProbeRun(best, servers, 1) for servers in SERVERS[1:]]
    if truth.framework is not None:
        runs += [ProbeRun(best, 1, 1, setting=label) for label in LABELS[1:]]
    runs += [ProbeRun(name, 1, 1) for name in truth.catalogue.names if name != best]
    return probe(truth, runs, rng, failures=failures).cells


# ---- runs ----


@dataclass(frozen=True, slots=True)
class _Rate:
    """Mean speed of one run, 1 = one unit of the highest-end platform, and its error."""

    value: float
    error: float

    def over(self, other: "_Rate") -> tuple[float, float]:
        """Quotient and its standard error, to first order."""
        quotient = self.value / other.value
        relative = np.hypot(self.error / self.value, other.error / other.value)
        return quotient, float(quotient * relative)


@dataclass(frozen=True, slots=True)
class _Tried:
    """A run that ended at `at_s`; without a rate where its copy died."""

    run: ProbeRun
    at_s: float
    rate: _Rate | None


@dataclass(frozen=True, slots=True)
class _Plan:
    """Runs of one application; the one at `base` is one unit of the highest-end platform."""

    truth: Truth
    best: str
    tried: Sequence[_Tried]
    base: int

    def like(self, run: ProbeRun) -> _Tried | None:
        """Find the run of the same units on one server of the highest-end platform."""
        shape = (self.best, 1, run.units)
        unset = (one for one in self.tried if not one.run.setting)
        return next((one for one in unset if _shape(one.run) == shape), None)


def _shape(run: ProbeRun) -> tuple[str, int, int]:
    return run.platform, run.servers, run.units


def _unlike(plan: _Plan, run: ProbeRun) -> str:
    """Say what a run lacks to be compared to; empty where it lacks nothing."""
    if plan.like(run):
        return ""
    return f"no run of {run.units} units on {plan.best} to compare {run} to"


def _tried(
    truth: Truth, runs: Sequence[ProbeRun], failures: float, rng: np.random.Generator
) -> list[_Tried]:
    """Measure the rate of every run; those of one copy follow one another."""
    free_s: dict[int, float] = {}
    found = []
    for i, run in enumerate(runs):
        copy = run.copy if run.copy is not None else -1 - i
        rate, setup_s = _true_rate(truth, run), rng.uniform(*SETUP_S)
        seen, is_dead = _sampled(rate, rng), rng.random() < failures
        free_s[copy] = free_s.get(copy, 0.0) + setup_s + (0.0 if is_dead else SAMPLES * SAMPLE_S)
        found.append(_Tried(run, free_s[copy], None if is_dead else seen))
    return found


def _true_rate(truth: Truth, run: ProbeRun) -> float:
    """Speed of a run in isolation, relative to one unit of the highest-end platform."""
    if run.platform not in truth.catalogue.names:
        raise ValueError(f"unknown platform {run.platform!r}")
    speed = float(truth.platform_speed[truth.catalogue.names.index(run.platform)])
    out = truth.scale_out.speed_up(run.servers)
    return speed * truth.scale_up.speed_up(run.units) * out * _speed_set(truth, run.setting)


def _speed_set(truth: Truth, setting: str) -> float:
    if not setting:
        return 1.0
    if truth.framework is None:
        raise ValueError(f"nothing can be set of {truth.name}, a {truth.kind} application")
    return truth.framework.speed(setting_named(setting))


def _sampled(rate: float, rng: np.random.Generator) -> _Rate:
    samples = rate * rng.lognormal(0.0, SAMPLE_NOISE, SAMPLES)
    return _Rate(float(samples.mean()), float(samples.std(ddof=1) / np.sqrt(SAMPLES)))


@dataclass(frozen=True, slots=True)
class _Part:
    """What one run or source brought; `sources` is how many there will be as far as known."""

    at_s: float
    what: str
    cells: tuple[Measured, ...] = ()
    missing: tuple[Unmeasured, ...] = ()
    sources: int | None = None


def _steps(plan: _Plan, ramps: "_Ramps") -> Iterator[Step]:
    base = plan.tried[plan.base]
    sources = len(base.run.sources)
    if base.rate is None:
        why = f"{_words(base.run)}: its copy died while it was set up"
        yield Step(base.at_s, 1, len(plan.tried) + sources, why, failed=why)
        return
    runs = sorted((_part(plan, one, base) for one in plan.tried), key=lambda part: part.at_s)
    parts = merge(runs, ramps.parts(base.run, base.at_s), key=lambda part: part.at_s)
    for done, part in enumerate(parts, start=1):
        sources = sources if part.sources is None else part.sources
        total = len(plan.tried) + sources
        yield Step(part.at_s, done, total, part.what, part.cells, part.missing)


def _part(plan: _Plan, one: _Tried, base: _Tried) -> _Part:
    """Cell of the matrix that one run is about, or all that are 1 by definition."""
    if one is base and base.rate:
        return _Part(one.at_s, _words(one.run), _base_cells(plan, base.rate))
    name, column, divisor = _cell(plan, one.run)
    like = base if name == "scale_up" else plan.like(one.run)
    rate, other = one.rate, like.rate if like else None
    if rate is None or other is None:
        why = "its copy died while it was set up" if rate is None else "nothing to compare it to"
        gap = Unmeasured(name, column, why)
        return _Part(one.at_s, f"{_words(one.run)}: {why}", missing=(gap,))
    value, error = rate.over(other)
    cell = Measured(name, column, value / divisor, error / divisor, SAMPLES)
    at_s = max(one.at_s, like.at_s if like else 0.0)
    return _Part(at_s, f"{_words(one.run)}: {name} {cell.value:.2f}", (cell,))


def _cell(plan: _Plan, run: ProbeRun) -> tuple[str, str, int]:
    """Matrix and column of a run, and what its rate is shared by."""
    if run.setting:
        return "framework", run.setting, 1
    if run.servers > 1:
        return "scale_out", str(run.servers), run.servers
    if run.platform == plan.best:
        return "scale_up", str(run.units), 1
    return "heterogeneity", run.platform, 1


def _base_cells(plan: _Plan, rate: _Rate) -> tuple[Measured, ...]:
    truth = plan.truth
    scales = (("metric", truth.metric_per_s), ("bytes", truth.bytes_per_s))
    ones = [("scale_up", "1"), ("scale_out", "1"), ("heterogeneity", plan.best)]
    if truth.framework is not None:
        ones.append(("framework", DEFAULT_SETTING.label))
    return (
        *(Measured("base_rate", c, rate.value * k, rate.error * k, SAMPLES) for c, k in scales),
        *(Measured(name, column, 1.0, 0.0, SAMPLES) for name, column in ones),
    )


def _words(run: ProbeRun) -> str:
    servers = f"{run.servers} servers of " if run.servers > 1 else ""
    units = f"{run.units} unit{'s' if run.units > 1 else ''} on "
    return f"{units}{servers}{run.platform}{f', {run.setting}' if run.setting else ''}"


# ---- ramps ----

Press = Callable[[Truth, str, np.random.Generator, float], Threshold | Missing]
SCORES: Final[tuple[tuple[str, Press], ...]] = (("tolerated", tolerated), ("caused", caused))


@dataclass(frozen=True, slots=True)
class _Ramps:
    """The microbenchmarks one run carries, one after the other."""

    truth: Truth
    rng: np.random.Generator
    failures: float
    budget_s: float | None

    def parts(self, run: ProbeRun, at_s: float) -> Iterator[_Part]:
        """Scores of each source there is time for."""
        names = run.sources if self.budget_s is None else (*run.sources, *run.spare)
        goes_on = self._has_time(run, 0, names, at_s)
        done = 0
        while goes_on:
            name, done = names[done], done + 1
            found = [
                (matrix, press(self.truth, name, self.rng, self.failures))
                for matrix, press in _scores(run, done)
            ]
            at_s += RAMP_SAMPLE_S * sum(score.samples for _, score in found)
            goes_on = self._has_time(run, done, names, at_s)
            cells = tuple(
                Measured(matrix, name, score.value, score.standard_error, score.samples)
                for matrix, score in found
                if isinstance(score, Threshold)
            )
            missing = tuple(
                Unmeasured(matrix, name, score.reason)
                for matrix, score in found
                if isinstance(score, Missing)
            )
            total = max(done + 1, min(len(run.sources), len(names))) if goes_on else done
            yield _Part(at_s, _told(name, cells, missing), cells, missing, total)

    def _has_time(self, run: ProbeRun, done: int, names: Sequence[str], at_s: float) -> bool:
        if done == len(names):
            return False
        return self.budget_s is None or takes_another_source(
            done, at_s, self.budget_s, by_turns=run.by_turns
        )


def _scores(run: ProbeRun, place: int) -> tuple[tuple[str, Press], ...]:
    """Scores that the source at this place tells, the first being 1."""
    return SCORES if not run.by_turns else (SCORES[(place - 1) % 2],)


def _told(name: str, cells: Sequence[Measured], missing: Sequence[Unmeasured]) -> str:
    scores = [f"{x.matrix} {x.value:.0f} ± {x.standard_error:.1f}" for x in cells]
    return f"{name}: {', '.join([*scores, *(f'{x.matrix} missing, {x.reason}' for x in missing)])}"
