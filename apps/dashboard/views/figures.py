"""Figures as JSON: the chart, its title and the same data as a table."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from urllib.parse import quote

from django.core.cache import cache
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, QueryDict

from apps.accounts.core.roles import Role
from apps.classification.core.matrix import MatrixName
from apps.common.api.etags import entity_tag, is_unchanged
from apps.common.core.errors import NotFoundError
from apps.dashboard.core import formats
from apps.dashboard.core.figure_methods import method_text
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
from apps.dashboard.views.access import has_role, page, requested_range, visible_to
from apps.inventory.selectors import cluster_now
from apps.scheduling.core.feasibility import Feasibility
from apps.scheduling.services import check_job
from apps.workloads.core.spec import parse_job
from apps.workloads.models import Job

CACHE_S = 2.0
AS_OF = re.compile(r'"as_of": "[^"]*", ')


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
        read=lambda asked: _feasibility(asked.value("spec")),
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


def _feasibility(text: str) -> Feasibility:
    """Return the predicted performance of the job in the address at every size.

    Raises
    ------
    Http404 : the text is not a valid job, or its application has no profile yet.
    """
    try:
        spec = parse_job(json.loads(text))
    except ValueError as error:  # InvalidInputError is one
        raise Http404(f"Not a valid job: {error}") from error
    feasibility_of_job = check_job(spec).feasibility
    if feasibility_of_job is None:
        raise Http404(f"{spec.application} has no profile yet")
    return feasibility_of_job


@page
def figure(request: HttpRequest, name: str) -> HttpResponse:
    """Return one figure as JSON, cached for a moment."""
    source = FIGURES.get(name)
    if source is None:
        raise Http404(f"There is no figure {name!r}")
    if not has_role(request, source.needs):
        raise Http404(f"{name} needs the role {source.needs}")
    owner = request.user.pk if isinstance(source, PrivateFigure) else "all"
    key = f"dashboard.drawn.{owner}.{name}?{request.GET.urlencode()}"
    drawn: DrawnFigure | None = cache.get(key)
    if drawn is None:
        try:
            data = _data(source, request)
        except NotFoundError as error:
            raise Http404(str(error)) from error
        parameters = request.GET.dict()
        drawn = _drawn(figure_json(source, data, how=method_text(name), parameters=parameters))
        cache.set(key, drawn, source.cache_s)
    headers = {"ETag": f"W/{drawn.tag}"}
    if is_unchanged(request, drawn.tag):
        return HttpResponse(status=304, headers=headers)
    return HttpResponse(drawn.body, content_type="application/json", headers=headers)


@dataclass(frozen=True, slots=True)
class DrawnFigure:
    """The JSON of a figure, and the tag of everything in it but the time of its data."""

    body: str
    tag: str


def _drawn(body: str) -> DrawnFigure:
    return DrawnFigure(body, entity_tag(None, AS_OF.sub("", body, count=1).encode()))


def _data(source: SharedFigure | PrivateFigure, request: HttpRequest) -> Any:
    """Return the data of a figure; a private one gets the jobs that the user may see."""
    asked = FigureRequest(request.GET)
    if isinstance(source, PrivateFigure):
        return source.read(asked, visible_to(request))
    return source.read(asked)


def figure_json(
    source: FigureSource,
    data: object,
    *,
    how: str = "",
    parameters: Mapping[str, str] | None = None,
) -> str:
    """Return a figure with its title and table as JSON; arrays travel as typed blocks."""
    table = source.draw.table(data)
    about = {
        "title": source.draw.title(data),
        "sub": source.draw.sub(data),
        "as_of": formats.cluster_day(cluster_now()),
        "how": how,
        "api": _address(source.api, parameters or {}),
        "table": {"head": table.head, "rows": table.rows},
    }
    return f'{json.dumps(about)[:-1]}, "figure": {source.draw.figure(data).to_json()}}}'


def _address(api: str, parameters: Mapping[str, str]) -> str:
    """Return the address of a REST call with the parameters of the figure filled in."""
    for name in re.findall(r"{(\w+)}", api):
        api = api.replace(f"{{{name}}}", quote(parameters.get(name, ""), safe="/"))
    return api
