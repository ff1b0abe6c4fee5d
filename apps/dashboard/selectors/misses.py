"""Data of the Explain tab of a job: its dip, suspects and remedies."""

import json
import math
from dataclasses import dataclass, replace

import numpy as np
from django.db.models import QuerySet

from apps.common.core.interference import N_SOURCES
from apps.dashboard.core import formats
from apps.dashboard.figures.dip import DipTimeline, Lane
from apps.dashboard.figures.dip_pressure import DipPressure
from apps.dashboard.selectors.jobs import job_by_id
from apps.execution.core.diagnosis.case import Case
from apps.execution.core.diagnosis.dips import Dip
from apps.execution.core.diagnosis.remedies import Remedy, RemedyKind
from apps.execution.core.diagnosis.suspects import Suspect
from apps.execution.core.diagnosis.text import COSTS
from apps.execution.selectors.diagnosis import Diagnosis, diagnosis
from apps.workloads.core.lifecycle import JobState
from apps.workloads.models import Job

ACTIONS = {
    RemedyKind.MOVE: "Migrate…",
    RemedyKind.UNITS: "Submit again…",
    RemedyKind.RELAX: "Relax target",
    RemedyKind.PROFILE: "Profile again",
}
TARGET_FIELDS = {
    "completion_time": "seconds",
    "throughput_latency": "latency_seconds",
    "ips": "ips",
}


@dataclass(frozen=True, slots=True)
class RemedyRow:
    """One remedy as the page shows it; ``request`` is JSON of the request, empty = none.

    ``kind`` decides how it is carried out: a migration after a dialog, more units on the Submit
    page, ``units`` of them, anything else at once.
    """

    kind: str
    units: int
    text: str
    predicted: str
    interval: str
    probability: float | None
    cost: str
    button: str
    request: str


@dataclass(frozen=True, slots=True)
class DipRow:
    """One dip of the list; ``query`` opens it."""

    when: str
    lasted: str
    lowest: float
    query: str
    is_shown: bool


@dataclass(frozen=True, slots=True)
class Explained:
    """The Explain tab.

    Attributes
    ----------
    unchanged : predicted performance if nothing is done; empty = not predicted
    at : parameter of the figures; empty = the latest dip, also when a new one begins
    """

    summary: str
    suspects: tuple[Suspect, ...]
    unknown: float | None
    remedies: tuple[RemedyRow, ...]
    unchanged: str
    dips: tuple[DipRow, ...]
    has_dip: bool
    is_open: bool
    at: str


def is_below(job: Job) -> bool:
    """Whether a job runs below its target now."""
    return job.state == JobState.RUNNING and job.attainment is not None and job.attainment < 1.0


def read_at(text: str) -> float | None:
    """Read the time of a dip from an address; None if it names none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def explained(job: Job, visible: QuerySet[Job], *, at: str) -> Explained:
    """Return the Explain tab of a job."""
    found = diagnosis(job, visible, at_s=read_at(at))
    finding = found.finding
    return Explained(
        summary=formats.spaced(found.summary),
        suspects=() if finding is None else tuple(map(_suspect, finding.suspects)),
        unknown=None if finding is None else finding.unknown,
        remedies=tuple(_remedy(remedy, found) for remedy in found.remedies),
        unchanged=_performance(found.unchanged, job.target_kind),
        dips=tuple(_dip(dip, found.dip) for dip in reversed(found.dips)),
        has_dip=found.dip is not None,
        is_open=found.dip is not None and found.dip.is_open,
        at=at if read_at(at) is not None else "",
    )


def timeline(job_id: str, visible: QuerySet[Job], *, at: str) -> DipTimeline:
    """Return the performance around a dip, with the neighbours underneath."""
    job = job_by_id(visible, job_id)
    found = diagnosis(job, visible, at_s=read_at(at))
    dip, shown, case = found.dip, found.shown, found.case
    field = TARGET_FIELDS.get(job.target_kind, "")
    return DipTimeline(
        times_s=shown.at_s,
        performance=shown.performance,
        attainment=shown.attainment,
        target_kind=job.target_kind,
        target=float(job.target.get(field, math.nan)),
        dip=None if dip is None else (dip.begin_s, dip.end_s),
        is_open=dip is not None and dip.is_open,
        lanes=() if case is None else _lanes(case, found),
        changed_s=()
        if case is None
        else tuple(
            sorted({h.from_s for h in case.own if shown.at_s[0] < h.from_s < shown.at_s[-1]})
        ),
    )


def pressure(job_id: str, visible: QuerySet[Job], *, at: str) -> DipPressure:
    """Return the pressure on a job before and at a dip."""
    found = diagnosis(job_by_id(visible, job_id), visible, at_s=read_at(at)).finding
    nothing = np.full(N_SOURCES, np.nan)
    if found is None:
        return DipPressure(nothing, nothing, nothing, nothing, nothing)
    tolerated = found.pressure.tolerated
    ends = (nothing, nothing, nothing) if tolerated is None else tolerated.ends
    return DipPressure(found.pressure.before, found.pressure.at_dip, *ends)


def _lanes(case: Case, found: Diagnosis) -> tuple[Lane, ...]:
    """Return the neighbours: suspects first, then by arrival."""
    suspects = () if found.finding is None else found.finding.suspects
    ranks = {(s.job, s.server): i for i, s in enumerate(suspects, start=1) if s.server is not None}
    lanes = []
    for key in sorted({(other.job, other.server) for other in case.others}):
        held = [other for other in case.others if (other.job, other.server) == key]
        lanes.append(
            Lane(
                server=found.names.server(key[1]),
                name=found.names.job(key[0]),
                units=max(other.units for other in held),
                rank=ranks.get(key, 0),
                spans=tuple((other.from_s, other.to_s) for other in held),
            )
        )
    lanes.sort(key=lambda lane: (lane.rank or math.inf, -lane.units, lane.spans[0][0]))
    return tuple(lanes)


def _suspect(suspect: Suspect) -> Suspect:
    """Return a suspect with its evidence in the format of the page."""
    evidence = tuple(replace(fact, text=formats.spaced(fact.text)) for fact in suspect.evidence)
    return replace(suspect, evidence=evidence)


def _remedy(remedy: Remedy, found: Diagnosis) -> RemedyRow:
    request = found.request_of(remedy)
    kind = found.job.target_kind
    predicted = remedy.predicted
    low, high = (
        ("", "")
        if predicted is None
        else (formats.performance_text(kind, predicted.low),
              formats.performance_text(kind, predicted.high))
    )  # fmt: skip
    return RemedyRow(
        kind=remedy.kind.value,
        units=remedy.units,
        text=f"Relax the target to {formats.performance_text(kind, remedy.relaxed)}"
        if remedy.kind is RemedyKind.RELAX
        else found.text_of(remedy),
        predicted=_performance(remedy, kind),
        interval=f"{low}, {high}" if low else "",
        probability=None if math.isnan(remedy.probability) else remedy.probability,
        cost=COSTS[remedy.kind],
        button=ACTIONS.get(remedy.kind, "") if request else "",
        request=json.dumps(request) if request else "",
    )


def _performance(remedy: Remedy | None, kind: str) -> str:
    if remedy is None or remedy.predicted is None:
        return ""
    return formats.performance_text(kind, remedy.predicted.value)


def _dip(dip: Dip, shown: Dip | None) -> DipRow:
    return DipRow(
        when=formats.cluster_day(dip.begin_s),
        lasted=f"{formats.duration(dip.end_s - dip.begin_s)}{' so far' if dip.is_open else ''}",
        lowest=dip.lowest,
        query=f"?tab=explain&at={_not_before(dip.begin_s)}",
        is_shown=dip == shown,
    )


def _not_before(at_s: float) -> str:
    """Return a time in milliseconds, rounded up: rounded down it would name the dip before."""
    return f"{math.ceil(1000.0 * at_s) / 1000.0:.3f}"
