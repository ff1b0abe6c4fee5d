"""The suspects of a dip, each with evidence for and against it, in words."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from apps.classification.core.estimates import Estimate
from apps.common.core.interference import SOURCE_NAMES, SOURCES
from apps.execution.core.diagnosis.attribution import (
    Attribution,
    Column,
    Contribution,
    Kind,
    Reference,
)
from apps.execution.core.diagnosis.case import Case, Wait
from apps.execution.core.diagnosis.dips import Dip
from apps.execution.core.diagnosis.phases import PhaseChange
from apps.execution.core.diagnosis.pressure import SourcePressure, server_pressure
from apps.inventory.core.snapshot import Bools, Floats

MIN_CONFIDENCE: Final = 0.01
MAX_SUSPECTS: Final = 6
COUNTERS: Final = ("memory requests", "waiting for the network", "waiting for the disk")


class Names(NamedTuple):
    """What the reader may know of jobs, and the names of servers.

    jobs : names of the visible jobs, by key; the others are not named
    servers : by id
    """

    jobs: Mapping[str, str]
    servers: Mapping[int, str]

    def job(self, key: str) -> str:
        """Return the name of a job, or that it belongs to another project."""
        return self.jobs.get(key, "a job of another project")

    def server(self, server_id: int) -> str:
        """Return the name of a server."""
        return self.servers.get(server_id, f"server {server_id}")


@dataclass(frozen=True, slots=True)
class Evidence:
    """One fact; ``about`` is timing, pressure, size, prediction, profile or counters."""

    is_for: bool
    about: str
    text: str


@dataclass(frozen=True, slots=True)
class Suspect:
    """One possible cause of a dip.

    Attributes
    ----------
    job, server : of a neighbour; ``job`` is a key
    confidence : probability that it is the largest cause, 0-1
    share : of the lost speed that it explains, 0-1, with a 90 % interval; None = no speed was lost
    """

    kind: Kind
    title: str
    job: str
    server: int | None
    confidence: float
    share: Estimate | None
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """A case around one dip, as the evidence needs it; ``at_dip`` and ``before`` are (T,)."""

    case: Case
    dip: Dip
    at_dip: Bools
    before: Bools
    pressure: SourcePressure
    phase: PhaseChange | None
    names: Names


def suspects(attribution: Attribution, scene: Scene) -> tuple[Suspect, ...]:
    """Return the suspects, most likely first; unknown causes are not among them."""
    shown = [
        contribution
        for contribution in attribution.contributions
        if contribution.column.kind is not Kind.UNKNOWN
        and contribution.confidence >= MIN_CONFIDENCE
    ]
    return tuple(_suspect(one, attribution, scene) for one in shown[:MAX_SUSPECTS])


def wait_suspect(wait: Wait, now: float) -> Suspect:
    """Return the wait of a job as the cause of its miss.

    Parameters
    ----------
    now : mean log speed at the dip
    """
    waited, target, run_s = span(wait.waited_s), span(wait.target_s), float(np.exp(-now))
    is_enough = run_s <= wait.target_s
    is_over = wait.waited_s >= wait.target_s
    left = "after its target had passed" if is_over else "too late to meet it"
    whole = f"all its work takes {span(run_s)} at this speed"
    return Suspect(
        kind=Kind.WAIT,
        title="It waited too long for its start",
        job="",
        server=None,
        confidence=1.0,
        share=None,
        evidence=(
            Evidence(
                True,
                "timing",
                f"it started {waited} after its submission, {left}; its target is {target}",
            ),
            Evidence(is_enough, "size", f"{whole}; its target is {target}"),
            *((Evidence(False, "size", "none found"),) if is_enough else ()),
        ),
    )


def unknown_confidence(attribution: Attribution) -> float:
    """Return the probability that no reported cause is the largest."""
    return next(c.confidence for c in attribution.contributions if c.column.kind is Kind.UNKNOWN)


def _suspect(one: Contribution, attribution: Attribution, scene: Scene) -> Suspect:
    column = one.column
    evidence = _EVIDENCE[column.kind](one, attribution, scene)
    if all(fact.is_for for fact in evidence):
        evidence = [*evidence, _explains_too_little(one, attribution)]
    return Suspect(
        kind=column.kind,
        title=_title(column, scene.names),
        job=column.job,
        server=column.server,
        confidence=one.confidence,
        share=one.share if attribution.drop > 0.0 else None,
        evidence=tuple(evidence),
    )


def _explains_too_little(one: Contribution, attribution: Attribution) -> Evidence:
    if attribution.drop <= 0.0:
        return Evidence(False, "size", "no speed was lost")
    low, high = one.share.low, one.share.high
    return Evidence(
        False,
        "size",
        f"it may explain only {low:.0%} of the lost speed"
        if low < 0.95
        else f"none found; it explains {low:.0%} to {high:.0%} of the lost speed",
    )


_TITLES: Final = {
    Kind.PROFILE: "The prediction was too optimistic",
    Kind.PHASE: "The job's own phase changed",
    Kind.MIGRATION: "Units paused for a migration",
    Kind.PLATFORM: "Slower platforms than at its start",
    Kind.UNITS: "Fewer units than its target needs",
}


def _title(column: Column, names: Names) -> str:
    if column.server is None:
        return _TITLES[column.kind]
    title = f"{names.job(column.job)} on {names.server(column.server)}"
    return title if column.job in names.jobs else title[:1].upper() + title[1:]


def _neighbour(one: Contribution, attribution: Attribution, scene: Scene) -> list[Evidence]:
    column, case = one.column, scene.case
    acts = column.acts < 0.0
    at_dip, before = float(acts[scene.at_dip].mean()), _share(acts, scene.before)
    return [
        _timing(column, scene, at_dip, before),
        *_own_pressure(column, scene),
        *_elsewhere(column, case, scene),
    ]


def _timing(column: Column, scene: Scene, at_dip: float, before: float | None) -> Evidence:
    """Compare the presence of a neighbour with the dip."""
    present = f"present in {at_dip:.0%} of the dip"
    arrived = [
        h.from_s
        for h in scene.case.others
        if (h.job, h.server) == (column.job, column.server) and h.to_s > scene.dip.begin_s
    ]
    if arrived and scene.dip.begin_s >= min(arrived) > scene.dip.begin_s - 600.0:
        present = f"arrived {span(scene.dip.begin_s - min(arrived))} before the dip, {present}"
    if before is None:
        return Evidence(at_dip >= 0.5, "timing", present)
    text = f"{present}, in {before:.0%} of the time before"
    return Evidence(at_dip - before >= 0.25, "timing", text)


def _own_pressure(column: Column, scene: Scene) -> list[Evidence]:
    """Name the source on which the neighbour adds most beyond the tolerance."""
    case, tolerated = scene.case, scene.case.tolerated
    if tolerated is None or column.server is None:
        return []
    at_s = case.reports.at_s[scene.at_dip]
    own: Floats = np.zeros(tolerated.value.shape)
    for h in case.others:
        if (h.job, h.server) == (column.job, column.server):
            own += h.units * h.caused * h.present(at_s).mean()
    own /= max(1, case.server_units.get(column.server, 0) - 1)
    total = server_pressure(case, column.server, at_s).mean(axis=0)
    excess = np.minimum(np.maximum(total - tolerated.value, 0.0), own)
    is_beyond = bool(excess.max() > 0.0)
    i = int(np.argmax(excess if is_beyond else own - tolerated.value))
    limit = tolerated.at(i)
    return [
        Evidence(
            is_beyond,
            "pressure",
            f"{SOURCE_NAMES[SOURCES[i]]} {total[i]:.0f} points, {own[i]:.0f} of them its own; "
            f"tolerated {limit.value:.0f} [{limit.low:.0f}, {limit.high:.0f}]",
        )
    ]


def _elsewhere(column: Column, case: Case, scene: Scene) -> list[Evidence]:
    if column.server is None:
        return []
    share = float(case.share_on(column.server, case.reports.at_s[scene.at_dip]).mean())
    if share > 0.99:
        return []
    return [Evidence(False, "size", f"only {share:.0%} of the job's units are on this server")]


def _profile(one: Contribution, attribution: Attribution, scene: Scene) -> list[Evidence]:
    predicted = scene.case.predicted
    deviation = predicted[1] if predicted else 0.0
    facts = [
        Evidence(
            one.effect > 0.0,
            "prediction",
            f"without its neighbours the job would run {_apart(one.effect)} than predicted",
        ),
        Evidence(
            False,
            "profile",
            f"the deviation of the prediction is {deviation:.0%}",
        ),
    ]
    crossed = int(scene.pressure.crossed.sum())
    if crossed:
        text = f"above the tolerance in {_plural(crossed, 'source')}"
        facts.append(Evidence(False, "pressure", text))
    return facts


def _phase(one: Contribution, attribution: Attribution, scene: Scene) -> list[Evidence]:
    phase = scene.phase
    if phase is None:
        return []
    counter = COUNTERS[phase.counter] if phase.counter < len(COUNTERS) else "a counter"
    gap = scene.dip.begin_s - phase.at_s
    when = f"{span(abs(gap))} {'before' if gap >= 0 else 'after'} the dip began"
    return [
        Evidence(True, "counters", f"{counter} changed by a factor of {phase.ratio:.2g}"),
        Evidence(abs(gap) <= 120.0, "timing", f"changed {when}"),
    ]


def _migration(one: Contribution, attribution: Attribution, scene: Scene) -> list[Evidence]:
    dip = scene.dip
    during = [s for s in scene.case.stalls if s.begin_s <= dip.end_s and s.end_s >= dip.begin_s]
    units = sum(stall.units for stall in during)
    lost = 1.0 - float(np.exp(one.column.acts[scene.at_dip]).mean())
    share = _share(one.column.acts < 0.0, scene.at_dip) or 0.0
    return [
        Evidence(True, "size", f"{_plural(units, 'unit')} paused: {lost:.0%} of the work lost"),
        Evidence(share >= 0.5, "timing", f"paused in {share:.0%} of the dip"),
    ]


def _platform(one: Contribution, attribution: Attribution, scene: Scene) -> list[Evidence]:
    slower = 1.0 - float(np.exp(one.column.acts[scene.at_dip]).mean())
    return [
        Evidence(
            slower > 0.0,
            "profile",
            f"its units are {abs(slower):.0%} {'slower' if slower > 0 else 'faster'} there "
            "than where it started",
        )
    ]


def _units(one: Contribution, attribution: Attribution, scene: Scene) -> list[Evidence]:
    held = scene.case.own_units(scene.case.reports.at_s[scene.at_dip]).mean()
    return [
        Evidence(
            True, "size", f"it holds {held:.0f} of the {scene.case.wanted_units} units needed"
        )
    ]


_EVIDENCE: Final[
    Mapping[Kind, Callable[[Contribution, Attribution, Scene], Sequence[Evidence]]]
] = {
    Kind.NEIGHBOUR: _neighbour,
    Kind.PROFILE: _profile,
    Kind.PHASE: _phase,
    Kind.MIGRATION: _migration,
    Kind.PLATFORM: _platform,
    Kind.UNITS: _units,
}


def compared(attribution: Attribution) -> str:
    """Describe the lost speed, e.g. "21 % slower than before the dip"."""
    if attribution.reference is Reference.BEFORE and not attribution.before.any():
        return "the job never met its target, and its speed was not predicted"
    what = (
        "before the dip"
        if attribution.reference is Reference.BEFORE
        else "predicted without neighbours"
    )
    return f"{_apart(attribution.drop)} than {what}"


def span(seconds: float) -> str:
    """Return a duration in one unit, e.g. "20 s", "13 min"."""
    if seconds < 100.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 6000.0 else f"{seconds / 3600.0:.1f} h"


def _apart(log_loss: float) -> str:
    """Return a loss of the log speed as "21 % slower", a gain as "27 % faster"."""
    if log_loss > 0.0:
        return f"{-np.expm1(-log_loss):.0%} slower"
    return f"{np.expm1(-log_loss):.0%} faster"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _share(acts: Bools, chosen: Bools) -> float | None:
    return float(acts[chosen].mean()) if chosen.any() else None
