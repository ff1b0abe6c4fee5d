"""The usual job of an application, and sensible targets for the next one, with reasons.

Suggestions come from two sources: what jobs of the application achieved, and what its profile
predicts at best.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np

from apps.dashboard.core.formats import byte_size, plural, target_text
from apps.scheduling.core.sizing.feasibility import Feasibility

Value = TypeVar("Value")
MIN_MEASURED: Final = 5
QUANTILE: Final = 0.9  # share of the past jobs that achieved the suggestion
NEAR_BEST: Final = 1.5  # ratio to the best prediction from which more units help little
USUAL_KINDS: Final = {
    "latency_critical": "throughput_latency",
    "single_node": "ips",
    "analytics": "completion_time",
    "batch": "completion_time",
}
INITIAL_TARGETS: Final[Mapping[str, Mapping[str, Any]]] = {
    "completion_time": {"kind": "completion_time", "seconds": 600.0},
    "throughput_latency": {
        "kind": "throughput_latency",
        "qps": 20_000.0,
        "latency_seconds": 0.01,
        "percentile": 99.0,
    },
    "ips": {"kind": "ips", "ips": 1.2e9},
    "best_effort": {"kind": "best_effort"},
}
INITIAL_INPUT_BYTES: Final = 16 * 10**9


@dataclass(frozen=True, slots=True)
class PastJob:
    """What one job of the application requested and achieved.

    Attributes
    ----------
    units : requested number; None = chosen by Berth
    achieved : completion time, latency or instructions/s of the target; None = not measured
    attainment : performance over target; None = not measured
    """

    target: Mapping[str, Any]
    input_bytes: int
    tasks: int
    duration_s: float | None
    units: int | None
    achieved: float | None
    attainment: float | None

    @property
    def kind(self) -> str:
        """Kind of the target."""
        return str(self.target["kind"])


@dataclass(frozen=True, slots=True)
class SuggestedTarget:
    """A target, its text, and why it is suggested."""

    text: str
    target: Mapping[str, Any]
    reason: str


@dataclass(frozen=True, slots=True)
class UsualJob:
    """The most common request among the latest jobs; without any, that of the application's kind.

    Attributes
    ----------
    reason : why these values are filled in; empty without past jobs
    """

    target: Mapping[str, Any]
    input_bytes: int
    tasks: int
    duration_s: float | None
    units: int | None
    reason: str


def usual_job(past: Sequence[PastJob], application_kind: str) -> UsualJob:
    """Return the usual job of an application.

    Parameters
    ----------
    past : its latest jobs, newest first
    """
    kind = _most_common([job.kind for job in past]) or USUAL_KINDS.get(application_kind, "")
    same_kind = [job for job in past if job.kind == kind]
    if not same_kind:
        target = INITIAL_TARGETS.get(kind, INITIAL_TARGETS["completion_time"])
        return UsualJob(target, INITIAL_INPUT_BYTES, 1, None, None, "")
    text = _most_common([json.dumps(job.target, sort_keys=True) for job in same_kind])
    target = json.loads(text or "{}")
    same = [job for job in same_kind if job.target == target]
    return UsualJob(
        target=target,
        input_bytes=_most_common([job.input_bytes for job in same]) or 0,
        tasks=_most_common([job.tasks for job in same]) or 1,
        duration_s=_most_common([job.duration_s for job in same]),
        units=_most_common([job.units for job in same]),
        reason=_usual_reason(same, past),
    )


def _most_common(values: Sequence[Value]) -> Value | None:
    """Return the most common value, of equally common ones the first; None without values."""
    return Counter(values).most_common(1)[0][0] if values else None


def _usual_reason(same: Sequence[PastJob], past: Sequence[PastJob]) -> str:
    of = "its last job" if len(past) == 1 else f"{len(same)} of its last {len(past)} jobs"
    measured = [job.attainment for job in same if job.attainment is not None]
    if not measured:
        return f"the target of {of}"
    met = sum(attainment >= 1.0 for attainment in measured)
    return f"the target of {of}; {met} of {plural(len(measured), 'measured job')} met it"


def suggested_targets(
    past: Iterable[PastJob], usual: UsualJob, grid: Feasibility | None
) -> list[SuggestedTarget]:
    """Return targets other than the usual one: what past jobs achieved, and the predicted best.

    Parameters
    ----------
    grid : predictions for the usual job; None = the application has no profile
    """
    suggestions = [_achieved(list(past), usual), None if grid is None else _predicted(usual, grid)]
    return [one for one in suggestions if one is not None and one.target != usual.target]


def _achieved(past: Sequence[PastJob], usual: UsualJob) -> SuggestedTarget | None:
    """Return the target that nine of ten comparable jobs would have met."""
    if usual.target["kind"] == "best_effort":
        return None
    values = [
        job.achieved
        for job in past
        if job.achieved is not None
        and 0.0 < job.achieved < math.inf
        and _is_comparable(job, usual)
    ]
    if len(values) < MIN_MEASURED:
        return None
    is_rate = usual.target["kind"] == "ips"
    value = float(np.quantile(values, 1.0 - QUANTILE if is_rate else QUANTILE))
    target = _with_value(usual.target, value)
    bound = _value_of(target)
    met = sum(one >= bound if is_rate else one <= bound for one in values)
    reason = f"{met} of its last {len(values)} comparable jobs achieved this"
    return SuggestedTarget(target_text(dict(target)), target, reason)


def _is_comparable(job: PastJob, usual: UsualJob) -> bool:
    """Whether a job had the same work: input and tasks, or load."""
    is_same_kind = job.kind == usual.target["kind"]
    if usual.target["kind"] == "throughput_latency":
        return is_same_kind and job.target["qps"] == usual.target["qps"]
    return is_same_kind and (job.input_bytes, job.tasks) == (usual.input_bytes, usual.tasks)


def _predicted(usual: UsualJob, grid: Feasibility) -> SuggestedTarget | None:
    """Return what the best platform is predicted to achieve before more units help little."""
    bounds = grid.low if grid.is_rate else grid.high
    usable = np.isfinite(bounds) & (bounds > 0.0)
    if grid.target is None or not usable.any():
        return None
    if grid.is_rate:
        best = int(np.argmax(np.where(usable, bounds, -np.inf)))
    else:
        best = int(np.argmin(np.where(usable, bounds, np.inf)))
    top, column = divmod(best, bounds.shape[1])
    on_best = bounds[:, column]
    limit = on_best[top] / NEAR_BEST if grid.is_rate else on_best[top] * NEAR_BEST
    near = usable[:, column] & (on_best >= limit if grid.is_rate else on_best <= limit)
    row = int(np.argmax(near))  # the fewest units
    target = _with_value(usual.target, float(on_best[row]))
    reason = (
        f"its profile predicts this{_of_work(usual)} with 90 % confidence on"
        f" {plural(int(grid.sizes[row]), 'unit')} of {grid.platforms[column]}, its best platform"
    )
    return SuggestedTarget(target_text(dict(target)), target, reason)


def _of_work(usual: UsualJob) -> str:
    """Name the work of a job that ends, on which its completion time depends."""
    if usual.target["kind"] != "completion_time":
        return ""
    return f" for {byte_size(usual.input_bytes)} and {plural(usual.tasks, 'task')}"


_VALUES: Final = {"completion_time": "seconds", "throughput_latency": "latency_seconds"}


def _value_of(target: Mapping[str, Any]) -> float:
    return float(target[_VALUES.get(target["kind"], "ips")])


def _with_value(target: Mapping[str, Any], value: float) -> Mapping[str, Any]:
    """Return the target with a value rounded to two digits to the easier side."""
    is_rate = target["kind"] == "ips"
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    steps = math.floor(value / step) if is_rate else math.ceil(value / step - 1e-9)
    rounded = float(f"{steps * step:.6g}")
    return {**target, _VALUES.get(target["kind"], "ips"): rounded}
