"""How often the first suspect of a dip is its cause, on jobs with known true behaviour.

    python -m benchmarks.diagnosis [--cases 2000] [--seed 2011] [--json]

One job on one server of 16 units, with neighbours that come and go and, in some cases, a phase of
its own. Speeds follow the emulator's truth; the diagnosis sees noisy reports, and profiles with
errors of 6 points. The true cause of a dip is the change around its beginning that costs most: of
neighbours by their Shapley value on the truth. Cases without a dip, or whose speed
before it was not clearly higher, are drawn again.
"""

import argparse
import json
import math
import sys
from dataclasses import dataclass
from itertools import pairwise, permutations
from typing import Final, NamedTuple

import numpy as np

from apps.classification.core.estimates import HALF_WIDTH_90, Estimates
from apps.common.core.interference import N_SOURCES
from apps.emulation.core.draws import application_truth
from apps.emulation.core.platforms import CAPACITY, catalogue
from apps.emulation.core.truth import Truth, interference_factor
from apps.execution.core.diagnosis.attribution import Kind, Reference
from apps.execution.core.diagnosis.case import Case, Holding, Reports
from apps.execution.core.diagnosis.diagnose import diagnose
from apps.execution.core.diagnosis.dips import dips
from apps.execution.core.diagnosis.suspects import Names
from apps.inventory.core.snapshot import Floats

UNITS: Final = 16
STEP_S, REPORTS, DIP_AT = 10.0, 180, 120
PROFILE_ERROR: Final = 6.0  # points
NOISE: Final = 0.02
PHASE_SHARE: Final = 0.25  # of the cases, with a change of the job's own phase
MARGIN: Final = 0.03  # of the target below the speed before the dip
BINS: Final = (0.0, 0.5, 0.7, 0.8, 0.9, 1.0001)


class Drawn(NamedTuple):
    """A case, what its diagnosis may not see, and whether it has a cause."""

    case: Case
    cause: str  # key of a neighbour, or "phase"


@dataclass(frozen=True, slots=True)
class Score:
    """The first suspect of one case."""

    confidence: float
    is_right: bool
    is_unknown: bool


def drawn_case(number: int, seed: int) -> Drawn | None:
    """Draw one case; None if nothing happens in it."""
    rng = np.random.default_rng([seed, number])
    platforms = catalogue(list(CAPACITY), seed=seed)
    job = application_truth(seed, f"job-{number}", "single_node", platforms)
    at_s = np.arange(0.0, STEP_S * REPORTS, STEP_S)
    others = _neighbours(number, seed, rng)
    phase_s = float(STEP_S * rng.integers(DIP_AT - 2, DIP_AT + 3))
    has_phase = bool(rng.random() < PHASE_SHARE)
    factor = math.exp(-abs(rng.normal(0.0, 0.17))) if has_phase else 1.0
    in_phase = (at_s >= phase_s) & has_phase
    speed = np.array(
        [_speed(job, [h for h in others if h.present(t).all()]) for t in at_s[:, None]]
    )
    speed *= np.where(in_phase, factor, 1.0)
    before, after = slice(DIP_AT - 60, DIP_AT - 3), slice(DIP_AT + 3, DIP_AT + 60)
    if np.median(speed[before]) < 1.05 * np.median(speed[after]):
        return None
    cause = _cause(job, others, at_s, factor if has_phase else 1.0)
    log_speed = np.log(speed) + NOISE * rng.standard_normal(REPORTS)
    counters = np.exp(0.05 * rng.standard_normal((REPORTS, 3)))
    counters[in_phase, int(rng.integers(3))] *= math.exp(rng.choice([-1.0, 1.0]) * 0.5)
    needed = float(np.log(np.median(speed[before]))) - MARGIN
    reports = Reports(at_s, log_speed, np.exp(log_speed - needed), np.ones(REPORTS), counters)
    seen = [_seen(holding, rng) for holding in others]
    case = Case(
        reports=reports,
        own=[Holding("", 1, 2, -1.0, math.inf, np.zeros(N_SOURCES))],
        others=seen,
        server_units={1: UNITS},
        server_speed={1: 1.0},
        tolerated=_profile(job.tolerated, rng),
        stalls=(),
        predicted=(0.0, 0.1),
        wanted_units=2,
        noise=NOISE,
    )
    return Drawn(case, cause)


def score(drawn: Drawn) -> Score | None:
    """Diagnose a case; None if its dip is not compared with the time before."""
    reports = drawn.case.reports
    found = dips(reports.at_s, reports.attainment, reports.readings)
    dip = max(found, key=lambda one: one.reports, default=None)
    if dip is None or abs(dip.begin_s - DIP_AT * STEP_S) > 5 * STEP_S:
        return None
    finding = diagnose(drawn.case, dip, Names({}, {}), is_service=False)
    if finding is None or finding.attribution.reference is not Reference.BEFORE:
        return None
    first = finding.attribution.contributions[0]
    named = "phase" if first.column.kind is Kind.PHASE else first.column.job
    is_unknown = first.column.kind is Kind.UNKNOWN
    return Score(first.confidence, named == drawn.cause, is_unknown)


def _neighbours(number: int, seed: int, rng: np.random.Generator) -> list[Holding]:
    """Draw neighbours: some stay, some leave, some arrive near the dip."""
    platforms = catalogue(list(CAPACITY), seed=seed)
    found, free = [], UNITS - 2
    for i in range(int(rng.integers(2, 7))):
        units = int(rng.integers(1, 7))
        if units > free:
            continue
        kind = str(rng.choice(["analytics", "single_node", "batch", "latency_critical"]))
        truth = application_truth(seed, f"other-{number}-{i}", kind, platforms)
        begin, end = -1.0, math.inf
        what = rng.random()
        if what < 0.45:
            begin = STEP_S * (DIP_AT + int(rng.integers(-3, 4)))
        elif what < 0.6:
            begin = STEP_S * float(rng.integers(0, REPORTS))
        elif what < 0.8:
            end = STEP_S * float(rng.integers(1, REPORTS))
        found.append(Holding(str(i), 1, units, begin, end, truth.caused))
        free -= units
    return found


def _speed(job: Truth, present: list[Holding]) -> float:
    pressed = sum((h.units * h.caused for h in present), np.zeros(N_SOURCES)) / (UNITS - 1)
    return float(interference_factor(np.minimum(pressed, 100.0), job.tolerated))


def _cause(job: Truth, others: list[Holding], at_s: Floats, factor: float) -> str:
    """Return the change around the dip that costs most: a Shapley value over arrivals."""
    early, late = at_s[[DIP_AT - 20]], at_s[[DIP_AT + 20]]
    stays = [h for h in others if h.present(early).all() and h.present(late).all()]
    comes = [h for h in others if not h.present(early).all() and h.present(late).all()]
    costs = {"phase": -math.log(factor)}
    for holding in comes:
        losses = []
        for order in permutations(comes):
            prior = [*stays, *order[: order.index(holding)]]
            losses.append(math.log(_speed(job, prior) / _speed(job, [*prior, holding])))
        costs[holding.job] = float(np.mean(losses))
    return max(costs, key=lambda key: costs[key])


def _seen(holding: Holding, rng: np.random.Generator) -> Holding:
    caused = np.clip(holding.caused + PROFILE_ERROR * rng.standard_normal(N_SOURCES), 0.0, 100.0)
    return Holding(holding.job, 1, holding.units, holding.from_s, holding.to_s, caused)


def _profile(truth: Floats, rng: np.random.Generator) -> Estimates:
    value = np.clip(truth + PROFILE_ERROR * rng.standard_normal(N_SOURCES), 1.0, 100.0)
    half = HALF_WIDTH_90 * PROFILE_ERROR
    low, high = np.clip(value - half, 1.0, 100.0), np.clip(value + half, 1.0, 100.0)
    return Estimates(value, low, high, np.ones(N_SOURCES, dtype=np.bool_))


def report(scores: list[Score]) -> list[dict[str, float | int | str]]:
    """Return one row for each range of confidence, and one for all."""
    rows: list[dict[str, float | int | str]] = []
    named = [one for one in scores if not one.is_unknown]
    for low, high in pairwise(BINS):
        inside = [one for one in named if low <= one.confidence < high]
        if inside:
            rows.append(_row(f"{100 * low:.0f}-{min(100.0, 100 * high):.0f} %", inside))
    rows.append(_row("all named", named))
    rows.append({"told": "unknown first", "cases": len(scores) - len(named)})
    return rows


def _row(name: str, inside: list[Score]) -> dict[str, float | int | str]:
    return {
        "told": name,
        "cases": len(inside),
        "mean_confidence": round(float(np.mean([one.confidence for one in inside])), 3),
        "right": round(float(np.mean([one.is_right for one in inside])), 3),
    }


def main() -> int:
    """Print how often the first suspect is the cause, by its confidence."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=2011)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    scores = []
    for number in range(options.cases):
        drawn = drawn_case(number, options.seed)
        found = None if drawn is None else score(drawn)
        if found is not None:
            scores.append(found)
    rows = report(scores)
    text = json.dumps(rows) if options.json else _table(rows, len(scores), options.cases)
    sys.stdout.write(f"{text}\n")
    return 0


def _table(rows: list[dict[str, float | int | str]], dips_found: int, cases: int) -> str:
    lines = [f"{dips_found} dips of {cases} cases"]
    lines.append(f"{'confidence told':<16}{'cases':>7}{'mean':>8}{'right':>8}")
    for row in rows:
        mean, right = (row.get(name, "") for name in ("mean_confidence", "right"))
        lines.append(f"{row['told']:<16}{row['cases']:>7}{mean!s:>8}{right!s:>8}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
