"""The diagnosis of one job: its dips, and for one of them suspects and remedies."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

import numpy as np
from django.db.models import QuerySet

from apps.classification.core.profile import Profile
from apps.execution.core.diagnosis import remedies as core
from apps.execution.core.diagnosis.attribution import SEGMENT_DEVIATION, Kind
from apps.execution.core.diagnosis.case import Case
from apps.execution.core.diagnosis.diagnose import Finding, diagnose
from apps.execution.core.diagnosis.dips import Dip, shown_dip
from apps.execution.core.diagnosis.remedies import Now, Places, Remedy
from apps.execution.core.diagnosis.speed import SpeedScale, scale_of
from apps.execution.core.diagnosis.suspects import Names
from apps.execution.core.diagnosis.text import (
    NO_DIP,
    NO_REPORT,
    NO_SPEED,
    NO_TARGET,
    SINGLE,
    headline,
    relaxed_target,
    remedy_text,
)
from apps.execution.selectors.case import (
    READING_DEVIATION,
    Samples,
    case_of,
    dips_of,
    profile_of,
    samples,
    server_facts,
    visible_names,
    window_of,
)
from apps.scheduling.core.batch_state import BatchState, TopologyFacts
from apps.scheduling.core.filters import eligible
from apps.scheduling.core.requests import request_of
from apps.scheduling.core.sizing.rate_grid import ON_ONE_SERVER
from apps.scheduling.core.sizing.sizes import Sized
from apps.scheduling.core.tarcil import encoding
from apps.scheduling.core.types import MAX_UNITS, Within
from apps.scheduling.selectors import claimed_jobs
from apps.scheduling.services.dry_run import frozen_cluster
from apps.workloads.core.lifecycle import ACTIVE_STATES
from apps.workloads.core.targets import TargetKind, read_target
from apps.workloads.models import Job
from apps.workloads.selectors import submission_of


@dataclass(frozen=True, slots=True, eq=False)
class Diagnosis:
    """What is known about why a job misses its target.

    Attributes
    ----------
    dips : oldest first
    dip : the one diagnosed; None = the job has none
    shown : the reports around it, or the latest ones without a dip
    case, finding : None without a dip, or if the reports give no speed
    unchanged : what happens if nothing is done; None unless the dip is open
    remedies : for an open dip
    """

    job: Job
    dips: tuple[Dip, ...]
    dip: Dip | None
    shown: Samples
    case: Case | None
    finding: Finding | None
    names: Names
    unchanged: Remedy | None
    remedies: tuple[Remedy, ...]

    @property
    def summary(self) -> str:
        """The diagnosis in one sentence."""
        if self.job.target_kind == TargetKind.BEST_EFFORT:
            return NO_TARGET
        if self.dip is None:
            return self._without_dip()
        if self.finding is None:
            return NO_SPEED
        return headline(self.finding.attribution, self.finding.suspects, self.finding.unknown)

    def _without_dip(self) -> str:
        known = self.shown.attainment[~np.isnan(self.shown.attainment)]
        if not known.size:
            return NO_REPORT
        return SINGLE if (known < 1.0).any() else NO_DIP

    def text_of(self, remedy: Remedy) -> str:
        """Return a remedy as an imperative."""
        target = read_target(self.job.target)
        return remedy_text(remedy, self.names, self.job.application.name, target)

    def request_of(self, remedy: Remedy) -> dict[str, Any] | None:
        """Return the REST request that carries a remedy out; None if there is none."""
        job = self.job
        if remedy.kind is core.RemedyKind.PROFILE:
            name = quote(job.application.name, safe="/")
            path = f"/api/v1/applications/{name}/profiling-runs/"
            body: dict[str, Any] = {"reason": f"{job.name} misses its target"[:200]}
            return {"method": "POST", "path": path, "body": body}
        if remedy.kind is core.RemedyKind.RELAX:
            target = relaxed_target(read_target(job.target), remedy.relaxed)
            path = f"/api/v1/jobs/{job.pk}/"
            return {"method": "PATCH", "path": path, "body": {"spec": {"target": target}}}
        if remedy.kind is core.RemedyKind.UNITS:
            body = submission_of(job)
            body["spec"]["units"] = remedy.units
            return {"method": "POST", "path": "/api/v1/jobs/", "body": body}
        if remedy.from_server is not None and remedy.to_server is not None:
            names = self.names
            migration = {
                "job": str(job.pk),
                "from_server": names.server(remedy.from_server),
                "to_server": names.server(remedy.to_server),
            }
            body = {"migration": migration}
            return {"method": "POST", "path": "/api/v1/plans/", "body": body}
        return None


def diagnosis(job: Job, visible: QuerySet[Job], *, at_s: float | None = None) -> Diagnosis:
    """Diagnose the dip of a job at a time, or its latest one.

    Parameters
    ----------
    visible : the jobs that the reader may see; the others are not named
    """
    latest = samples(job)
    found = dips_of(job, latest)
    dip = shown_dip(found, at_s)
    nothing = Diagnosis(job, found, dip, latest, None, None, Names({}, {}), None, ())
    scale = scale_of(read_target(job.target), job.units or 1)
    if dip is None or scale is None:
        return nothing
    shown, profile = window_of(job, dip, latest), profile_of(job)
    case = case_of(job, shown, scale, profile)
    facts = server_facts({holding.server for holding in case.own})
    keys = sorted({other.job for other in case.others})
    names = Names(visible_names(visible, keys), facts.names)
    is_service = job.target_kind == TargetKind.THROUGHPUT_LATENCY
    finding = diagnose(case, dip, names, is_service=is_service)
    known = Diagnosis(job, found, dip, shown, case, finding, names, None, ())
    is_running = job.state in {state.value for state in ACTIVE_STATES}
    if finding is None or not dip.is_open or not is_running:
        return known
    running = _Running(scale, profile, _now(job, shown, case, finding))
    return _with_remedies(known, case, finding, running)


@dataclass(frozen=True, slots=True, eq=False)
class _Running:
    """A running job below its target."""

    scale: SpeedScale
    profile: Profile | None
    now: Now


def _now(job: Job, shown: Samples, case: Case, finding: Finding) -> Now:
    """Return the state at the last report, from the latest reports of the dip."""
    speeds = case.reports.log_speed[finding.at_dip]
    latest = speeds[~np.isnan(speeds)][-5:]
    return Now(
        log_speed=float(latest.mean()),
        deviation=math.hypot(SEGMENT_DEVIATION, READING_DEVIATION / math.sqrt(latest.size)),
        progress=float(shown.progress[-1]),
        elapsed_s=float(shown.at_s[-1]) - job.submitted_s,
    )


def _with_remedies(known: Diagnosis, case: Case, finding: Finding, running: _Running) -> Diagnosis:
    scale, now, profile = running.scale, running.now, running.profile
    found: list[Remedy | None] = []
    names = known.names
    if profile is not None:
        places = _places(known.job, case, profile)
        if places is not None:
            moved = core.move(case, finding.attribution, finding.at_dip, places, scale, now)
            if moved is not None and moved.to_server is not None:
                to = server_facts({moved.to_server}).names
                names = Names(names.jobs, {**names.servers, **to})
            found.append(moved)
        found.append(_more_units(known.job, case, profile, running))
    found.append(core.relax(scale, now))
    is_late = any(suspect.kind is Kind.WAIT for suspect in finding.suspects)
    is_doubtful = not is_late and core.needs_profile(finding.attribution)
    # no backend profiles commands
    if is_doubtful and known.job.program is None:
        found.append(Remedy(core.RemedyKind.PROFILE))
    return replace(
        known,
        names=names,
        unchanged=core.unchanged(scale, now),
        remedies=tuple(remedy for remedy in found if remedy is not None),
    )


def _more_units(job: Job, case: Case, profile: Profile, running: _Running) -> Remedy | None:
    held = [h for h in case.own if h.to_s == math.inf]
    units, servers = sum(h.units for h in held), len({h.server for h in held})
    if not held:
        return None
    is_together = profile.kind in ON_ONE_SERVER or job.constraints.get("locality") == Within.SERVER
    limit = max(case.server_units.values()) if is_together else MAX_UNITS
    if job.tasks_total > 1 and job.target_kind == TargetKind.COMPLETION_TIME:
        limit = min(limit, job.tasks_total)
    rate = _rate(profile, units, servers, is_together=is_together)
    again = replace(running.now, progress=0.0, elapsed_s=0.0)  # a new job begins at 0 %
    return core.more_units(rate, units, limit, running.scale, again)


def _rate(
    profile: Profile, units: int, servers: int, *, is_together: bool
) -> Callable[[int], float]:
    """Return the rate by size, with each additional unit on a server of its own."""

    def rate(size: int) -> float:
        spread = servers if is_together else min(size, servers + size - units)
        return profile.rate(size, servers=spread).value

    return rate


def _places(job: Job, case: Case, profile: Profile) -> Places | None:
    """Return the open servers that satisfy the job's constraints; None if it must not move.

    Jobs whose units must share a rack or switch, or be apart, are left to plans: they know
    such rules.
    """
    constraints = job.constraints
    if constraints.get("spread") or constraints.get("locality") in {Within.RACK, Within.SWITCH}:
        return None
    held = [h for h in case.own if h.to_s == math.inf]
    if constraints.get("locality") and len({h.server for h in held}) > 1:
        return None
    claimed = claimed_jobs([job.id], cluster_s=job.submitted_s, start_delay_s=0.0)
    if not claimed or not held:
        return None
    snapshot = frozen_cluster()
    units = max(sum(h.units for h in held if h.server == server) for server in case.server_units)
    platforms = frozenset(claimed[0].spec.constraints.platforms) or None
    sized = Sized(units, platforms, None, math.nan, math.nan, math.nan, math.nan)
    topology = snapshot.topology
    request = request_of(claimed[0].spec, profile, sized, topology, job=str(job.id))
    state = BatchState.of(snapshot, TopologyFacts(topology), writable=False)
    allowed = eligible(state, request)
    at = np.flatnonzero(allowed.servers)
    speeds = np.ones(len(topology.platform_name))
    if request.platform_speed is not None:
        speeds = request.platform_speed
    return Places(
        server=topology.server_id[at],
        room=allowed.room[at].astype(np.int64),
        pressure=encoding.pressure(snapshot.server_caused[at], topology.server_units[at]),
        log_speed=np.log(speeds[topology.server_platform[at]]),
    )
