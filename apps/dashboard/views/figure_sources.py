"""The figures of the dashboard: what draws each, and where its data comes from."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

from django.db.models import QuerySet
from django.http import Http404, QueryDict

from apps.accounts.core.roles import Role
from apps.classification.core.matrix import MatrixName
from apps.common.api.queries import read_float
from apps.dashboard.core.ranges import TimeRange
from apps.dashboard.figures import (
    attainment,
    bars,
    calibration,
    decision_latency,
    dip,
    dip_pressure,
    feasibility,
    interference,
    lab_curves,
    lab_differences,
    lab_front,
    lab_halving,
    lab_used,
    lines,
    matrix_heatmap,
    pair_deviation,
    pair_slowdowns,
    performance,
    plan_progress,
    platform_speed,
    power,
    prediction_error,
    pressure,
    quality_cdf,
    queue,
    revision_error,
    scale_curve,
    server_history,
    setting_speed,
    singular_values,
)
from apps.dashboard.figures import utilisation as utilisation_figure
from apps.dashboard.figures.marks import MatrixRow
from apps.dashboard.selectors import (
    administration,
    application,
    classification,
    decision_times,
    decisions,
    jobs,
    lab,
    misses,
    overview,
    pairs,
    plan,
    sampling,
    servers,
    system_history,
    utilisation,
)
from apps.dashboard.views.access import requested_range
from apps.scheduling.core.sizing.feasibility import Feasibility
from apps.scheduling.core.start_of_check import feasibility_after
from apps.scheduling.services import check_job
from apps.workloads.core.spec import parse_job
from apps.workloads.models import Job

CACHE_S = 2.0


@dataclass(frozen=True, slots=True)
class FigureRequest:
    """The parameters in the address of a figure; says nothing of the user."""

    parameters: QueryDict

    def value(self, name: str) -> str:
        """Return a parameter; empty without one."""
        return self.parameters.get(name, "")

    @property
    def span(self) -> TimeRange:
        """The requested time range, ending now."""
        return requested_range(self.parameters)

    @property
    def application(self) -> str:
        """Name of the requested application."""
        return self.value("application")


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureSource:
    """The module that draws a figure, and the REST call with the same data."""

    draw: ModuleType
    api: str
    cache_s: float = CACHE_S
    needs: Role = Role.VIEWER


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFigure(FigureSource):
    """A figure that is the same for all users: its data names no job and is cached once."""

    read: Callable[[FigureRequest], Any]  # every figure has its own data type


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateFigure(FigureSource):
    """A figure of the jobs that the user may see; cached for each user."""

    read: Callable[[FigureRequest, QuerySet[Job]], Any]


CLASSIFICATION = "/api/v1/applications/{application}/classification/"


def _matrix_row(matrix: MatrixName) -> Callable[[FigureRequest], MatrixRow]:
    return lambda asked: application.matrix_row(asked.application, matrix)


def _system(read: Callable[[], lines.Lines]) -> Callable[[FigureRequest], lines.Lines]:
    return lambda _: read()


FIGURES: dict[str, SharedFigure | PrivateFigure] = {
    "utilisation": SharedFigure(
        read=lambda asked: utilisation.utilisation(asked.span),
        draw=utilisation_figure,
        api="/api/v1/servers/",
        cache_s=5.0,
    ),
    "attainment": SharedFigure(
        read=lambda asked: overview.attainment(asked.span),
        draw=attainment,
        api="/api/v1/jobs/?state=running",
    ),
    "queue": SharedFigure(
        read=lambda asked: overview.queue_by_reason(asked.span),
        draw=queue,
        api="/api/v1/jobs/?state__in=submitted,profiling,queued",
    ),
    "decision-latency": SharedFigure(
        read=lambda asked: decision_times.decision_latency(asked.span),
        draw=decision_latency,
        api="/api/v1/decisions/",
    ),
    "power": SharedFigure(
        read=lambda asked: overview.power(asked.span), draw=power, api="/api/v1/servers/"
    ),
    "performance": PrivateFigure(
        read=lambda asked, visible: jobs.performance(jobs.job_by_id(visible, asked.value("job"))),
        draw=performance,
        api="/api/v1/jobs/",
    ),
    "dip": PrivateFigure(
        read=lambda asked, visible: misses.timeline(
            asked.value("job"), visible, at=asked.value("at")
        ),
        draw=dip,
        api="/api/v1/jobs/{job}/diagnosis/",
    ),
    "dip-pressure": PrivateFigure(
        read=lambda asked, visible: misses.pressure(
            asked.value("job"), visible, at=asked.value("at")
        ),
        draw=dip_pressure,
        api="/api/v1/jobs/{job}/diagnosis/",
    ),
    "feasibility": SharedFigure(
        read=lambda asked: _feasibility(asked.value("spec"), asked.value("start")),
        draw=feasibility,
        api="/api/v1/checks/",
        cache_s=5.0,
    ),
    "guarantee": PrivateFigure(
        read=lambda asked, visible: sampling.guarantee(
            decisions.decision_by_id(visible, asked.value("decision"))
        ),
        draw=quality_cdf,
        api="/api/v1/decisions/",
    ),
    "quality": SharedFigure(
        read=lambda asked: sampling.quality(asked.value("r"), asked.value("source")),
        draw=quality_cdf,
        api="/api/v1/decisions/",
        cache_s=5.0,
    ),
    "pressure": PrivateFigure(
        read=lambda asked, visible: servers.pressure(asked.value("server"), visible),
        draw=pressure,
        api="/api/v1/servers/",
    ),
    "server-history": SharedFigure(
        read=lambda asked: servers.history(asked.value("server"), asked.span),
        draw=server_history,
        api="/api/v1/servers/",
    ),
    "plan-progress": SharedFigure(
        read=lambda asked: plan.progress(asked.value("plan")),
        draw=plan_progress,
        api="/api/v1/plans/{plan}/steps/",
        cache_s=1.0,
        needs=Role.OPERATOR,
    ),
    "lab-curves": SharedFigure(
        read=lambda asked: lab.curves(asked.value("comparison"), asked.value("load")),
        draw=lab_curves,
        api="/api/v1/comparisons/{comparison}/",
        needs=Role.OPERATOR,
    ),
    "lab-front": SharedFigure(
        read=lambda asked: lab.front(asked.value("comparison"), asked.value("load")),
        draw=lab_front,
        api="/api/v1/comparisons/{comparison}/",
        needs=Role.OPERATOR,
    ),
    "lab-halving": SharedFigure(
        read=lambda asked: lab.halving(asked.value("comparison")),
        draw=lab_halving,
        api="/api/v1/comparisons/{comparison}/",
        needs=Role.OPERATOR,
    ),
    "lab-used": SharedFigure(
        read=lambda asked: lab.used(asked.value("comparison"), asked.value("load")),
        draw=lab_used,
        api="/api/v1/comparisons/{comparison}/",
        needs=Role.OPERATOR,
    ),
    "lab-differences": SharedFigure(
        read=lambda asked: lab.differences(
            asked.value("comparison"), asked.value("baseline"), asked.value("load")
        ),
        draw=lab_differences,
        api="/api/v1/comparisons/{comparison}/",
        needs=Role.OPERATOR,
    ),
    "pair": SharedFigure(
        read=lambda asked: pairs.slowdowns(asked.value("pair")),
        draw=pair_slowdowns,
        api="/api/v1/measured-pairs/{pair}/",
        needs=Role.OPERATOR,
    ),
    "pair-deviation": SharedFigure(
        read=lambda _: pairs.deviations(),
        draw=pair_deviation,
        api="/api/v1/measured-pairs/",
        needs=Role.OPERATOR,
    ),
    "scale-up": SharedFigure(
        read=_matrix_row(MatrixName.SCALE_UP), draw=scale_curve, api=CLASSIFICATION
    ),
    "scale-out": SharedFigure(
        read=_matrix_row(MatrixName.SCALE_OUT), draw=scale_curve, api=CLASSIFICATION
    ),
    "platform-speed": SharedFigure(
        read=_matrix_row(MatrixName.HETEROGENEITY), draw=platform_speed, api=CLASSIFICATION
    ),
    "setting-speed": SharedFigure(
        read=_matrix_row(MatrixName.FRAMEWORK), draw=setting_speed, api=CLASSIFICATION
    ),
    "interference": SharedFigure(
        read=lambda asked: application.interference(asked.application),
        draw=interference,
        api=CLASSIFICATION,
    ),
    "prediction-error": PrivateFigure(
        read=lambda asked, visible: application.prediction_errors(asked.application, visible),
        draw=prediction_error,
        api="/api/v1/applications/{application}/prediction-errors/",
    ),
    "matrix": SharedFigure(
        read=lambda asked: classification.heat(classification.read_query(asked.parameters)),
        draw=matrix_heatmap,
        api="/api/v1/matrices/{matrix}/cells/",
    ),
    "singular-values": SharedFigure(
        read=lambda asked: classification.singular_values(
            classification.read_query(asked.parameters)
        ),
        draw=singular_values,
        api="/api/v1/matrices/{matrix}/",
    ),
    "calibration": SharedFigure(
        read=lambda asked: classification.calibration(classification.read_query(asked.parameters)),
        draw=calibration,
        api="/api/v1/matrices/{matrix}/",
    ),
    "jobs-by-project": PrivateFigure(
        read=lambda _, visible: administration.jobs_by_project(visible),
        draw=bars,
        api="/api/v1/jobs/?state__in=submitted,profiling,queued,starting,running",
    ),
    **{
        name: SharedFigure(read=_system(read), draw=lines, api="/api/v1/cluster/", cache_s=5.0)
        for name, read in {
            "system-queues": system_history.queues,
            "system-rate": system_history.decision_rate,
            "system-time": system_history.decision_time,
            "system-conflicts": system_history.lost_commits,
            "system-streams": system_history.streams,
        }.items()
    },
    "revision-error": SharedFigure(
        read=lambda asked: classification.revision_errors(
            classification.read_query(asked.parameters)
        ),
        draw=revision_error,
        api="/api/v1/revisions/",
    ),
}


def _feasibility(text: str, start: str) -> Feasibility:
    """Return the predicted performance of the job in the address at every size.

    No size depends on the policy of the job, which may not be installed any more.

    Parameters
    ----------
    start : predicted cluster seconds until it starts; empty = now

    Raises
    ------
    Http404 : the job or the start is not valid, or nothing is predicted for it.
    """
    try:
        spec = parse_job(json.loads(text))
        elapsed_s = max(0.0, read_float(start)) if start else 0.0
    except (ValueError, RecursionError) as error:  # InvalidInputError is a ValueError
        raise Http404(f"Not a valid job: {error}") from error
    spec = replace(spec, policy=None)
    feasibility_of_job = feasibility_after(spec, check_job(spec), elapsed_s)
    if feasibility_of_job is None:
        raise Http404(f"no prediction for this job of {spec.application}")
    return feasibility_of_job
