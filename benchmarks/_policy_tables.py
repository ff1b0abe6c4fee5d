"""Tables of the comparison of policies: means over the seeds, and the lead of the default."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

import numpy as np
from scipy import stats

from apps.scheduling.core.registry import DEFAULT

MEASURES: Final = {
    "mean": "mean",
    "tenth": "p10",
    "hundredth": "p1",
    "near_full_speed": "jobs at 0.95 or more",
    "overall": "overall",
    "targets_met": "targets met",
    "neighbours_loss": "neighbours' loss",
    "mean_wait_s": "mean wait, s",
    "longest_wait_s": "longest wait, s",
}
WAITS: Final = frozenset({"mean_wait_s", "longest_wait_s"})
LEADS: Final = {"overall": "overall", "near_full_speed": "at_095"}  # by name in the JSON
PROFILES: Final = {"inferred": "inferred", "true": "true (bound)"}


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """One policy at one load; performance relative to isolation on the same platforms.

    Attributes
    ----------
    near_full_speed : share of jobs with at least 0.95 of it
    overall : mean speed from arrival to end
    targets_met : share of jobs
    neighbours_loss : mean speed that the neighbours of a job lose when it starts, in jobs
    mean_wait_s, longest_wait_s : cluster seconds from arrival to start
    """

    load: float
    policy: str
    mean: float
    tenth: float
    hundredth: float
    near_full_speed: float
    overall: float
    targets_met: float
    neighbours_loss: float
    mean_wait_s: float
    longest_wait_s: float

    def __str__(self) -> str:
        spread = f"mean {self.mean:.3f}  p10 {self.tenth:.3f}  p1 {self.hundredth:.3f}"
        ends = f"at least 0.95: {self.near_full_speed:4.0%}  overall {self.overall:.3f}"
        more = f"targets met {self.targets_met:4.0%}  neighbours' loss {self.neighbours_loss:.3f}"
        waits = f"waits {self.mean_wait_s:.0f} s, at most {self.longest_wait_s:.0f} s"
        return f"load {self.load:4.2f}  {self.policy:<15} {spread}  {ends}  {more}  {waits}"


def estimate(values: list[float]) -> tuple[float, float]:
    """Return the mean of one value per seed, and half of the 90 % interval of the mean."""
    n = len(values)
    if n < 2:
        return float(np.mean(values)), float("nan")
    width = float(stats.t.ppf(0.95, n - 1)) * float(np.std(values, ddof=1)) / n**0.5
    return float(np.mean(values)), width


class Run(NamedTuple):
    """One policy on the jobs of one seed.

    Attributes
    ----------
    profiles : what the policy knew, a key of `PROFILES`
    """

    world: str
    profiles: str
    seed: int
    result: PolicyRow

    @property
    def key(self) -> tuple[str, str, float, str]:
        """World, profiles, load and policy: runs of several seeds share them."""
        return self.world, self.profiles, self.result.load, self.result.policy


def by_key(runs: Sequence[Run]) -> dict[tuple[str, str, float, str], list[Run]]:
    """Return the runs of all seeds together, sorted by world, profiles and load."""
    order = sorted(runs, key=lambda run: (run.world, list(PROFILES).index(run.profiles)))
    groups: dict[tuple[str, str, float, str], list[Run]] = {}
    for run in sorted(order, key=lambda run: run.key[:1]):
        groups.setdefault(run.key, []).append(run)
    return groups


def table(runs: Sequence[Run]) -> list[list[str]]:
    """Return the published table: one row per world, profiles, load and policy."""
    shown = [["world", "profiles", "load", "policy", *MEASURES.values()]]
    for (world, profiles, load, policy), of_seeds in by_key(runs).items():
        texts = [_cell(name, [getattr(run.result, name) for run in of_seeds]) for name in MEASURES]
        shown.append([world, PROFILES[profiles], f"{load:.2f}", f"`{policy}`", *texts])
    return shown


def _cell(measure: str, values: list[float]) -> str:
    mean, half = estimate(values)
    digits = 0 if measure in WAITS else 3
    return f"{mean:.{digits}f} ± {half:.{digits}f}"


def leads(runs: Sequence[Run]) -> dict[tuple[str, str, float, str], dict[str, list[float]]]:
    """Return the lead of the default over each other policy: mean and half of its interval.

    The difference of the two on the jobs of each seed, by the names of `LEADS`; empty for seeds
    on which the default did not run.
    """
    groups = by_key(runs)
    found = {}
    for (world, profiles, load, policy), of_seeds in groups.items():
        default = {
            run.seed: run.result for run in groups.get((world, profiles, load, DEFAULT), ())
        }
        pairs = [(default[run.seed], run.result) for run in of_seeds if run.seed in default]
        if policy != DEFAULT and pairs:
            found[world, profiles, load, policy] = {
                shown: [*estimate([getattr(a, name) - getattr(b, name) for a, b in pairs])]
                for name, shown in LEADS.items()
            }
    return found


def nearest(runs: Sequence[Run]) -> list[list[str]]:
    """Return a table of the policies that come nearest to the default on each measure."""
    cells: dict[tuple[str, str, float], dict[str, dict[str, list[float]]]] = {}
    for (world, profiles, load, policy), lead in leads(runs).items():
        cells.setdefault((world, profiles, load), {})[policy] = lead
    titles = ("overall: nearest", "lead", "jobs at 0.95 or more: nearest", "lead")
    shown = [["world", "profiles", "load", *titles]]
    for (world, profiles, load), policies in cells.items():
        texts = []
        for measure in LEADS.values():
            rival = min(policies, key=lambda name: policies[name][measure][0])
            mean, half = policies[rival][measure]
            texts += [f"`{rival}`", f"{mean:+.4f} ± {half:.4f}"]
        shown.append([world, PROFILES[profiles], f"{load:.2f}", *texts])
    return shown


def runs_in(figures: Sequence[Mapping[str, Any]]) -> list[Run]:
    """Return the runs of a stored result; NaN for a measure that it does not have."""
    unknown = dict.fromkeys((each.name for each in fields(PolicyRow)), math.nan)
    return [
        Run(
            *(figure["world"], figure["profiles"], figure["seed"]),
            result=PolicyRow(**{key: figure.get(key, unknown[key]) for key in unknown}),
        )
        for figure in figures
    ]


def as_json(runs: Sequence[Run]) -> dict[str, object]:
    """Return the default policy, and the means of each policy with the default's lead over it."""
    lead = leads(runs)
    rows = [
        {
            "world": world,
            "profiles": profiles,
            "load": load,
            "policy": policy,
            "seeds": [run.seed for run in of_seeds],
            "overall": float(np.mean([run.result.overall for run in of_seeds])),
            "at_095": float(np.mean([run.result.near_full_speed for run in of_seeds])),
            "targets_met": float(np.mean([run.result.targets_met for run in of_seeds])),
            "neighbours_loss": float(np.mean([run.result.neighbours_loss for run in of_seeds])),
            "mean_wait_s": float(np.mean([run.result.mean_wait_s for run in of_seeds])),
            "longest_wait_s": float(np.mean([run.result.longest_wait_s for run in of_seeds])),
            "lead": _json_lead(lead.get((world, profiles, load, policy))),
        }
        for (world, profiles, load, policy), of_seeds in by_key(runs).items()
    ]
    return {"default": DEFAULT, "rows": rows}


def _json_lead(
    lead: Mapping[str, Sequence[float]] | None,
) -> dict[str, list[float | None]] | None:
    """Return a lead with null for the interval of one seed, as JSON has no NaN."""
    if lead is None:
        return None
    return {name: [x if math.isfinite(x) else None for x in pair] for name, pair in lead.items()}
