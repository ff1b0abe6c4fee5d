"""Figures as JSON: the picture, its title, its table twin."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any
from urllib.parse import quote

from django.core.cache import cache
from django.http import Http404, HttpRequest, HttpResponse

from apps.accounts.core.roles import Role
from apps.classification.core.matrix import MatrixName
from apps.dashboard.core import words
from apps.dashboard.core.how import how_computed
from apps.dashboard.figures import (
    attainment,
    calibration,
    decision_latency,
    feasibility,
    interference,
    matrix_heatmap,
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
from apps.dashboard.selectors import (
    application,
    classification,
    decisions,
    jobs,
    overview,
    plan,
    sampling,
    servers,
    utilisation,
)
from apps.dashboard.views.access import asked_range, has_role, jobs_seen_by, page
from apps.inventory.selectors import cluster_now
from apps.scheduling.core.feasibility import Feasibility
from apps.scheduling.services import check_job
from apps.workloads.core.spec import parse_job

KEPT_S = 2.0


@dataclass(frozen=True, slots=True)
class Source:
    """Where a figure's numbers come from and which module draws them."""

    read: Callable[[HttpRequest], Any]  # each figure has its own type of data
    draw: ModuleType
    api: str  # the REST call that gives the same facts
    kept_s: float = KEPT_S
    is_private: bool = False  # about one job: not the same for everybody
    needs: Role = Role.VIEWER


SOURCES: dict[str, Source] = {
    "utilisation": Source(
        lambda request: utilisation.utilisation(asked_range(request)),
        utilisation_figure,
        "/api/v1/servers/",
        kept_s=5.0,
    ),
    "attainment": Source(
        lambda request: overview.attainment(asked_range(request)),
        attainment,
        "/api/v1/jobs/?state=running",
    ),
    "queue": Source(
        lambda request: overview.queue_by_reason(asked_range(request)),
        queue,
        "/api/v1/jobs/?state__in=submitted,profiling,queued",
    ),
    "decision-latency": Source(
        lambda request: overview.decision_latency(asked_range(request)),
        decision_latency,
        "/api/v1/decisions/",
    ),
    "power": Source(
        lambda request: overview.power(asked_range(request)), power, "/api/v1/servers/"
    ),
    "performance": Source(
        lambda request: jobs.performance(
            jobs.job(jobs_seen_by(request), request.GET.get("job", ""))
        ),
        performance,
        "/api/v1/jobs/",
        is_private=True,
    ),
    "feasibility": Source(
        lambda request: _feasibility(request.GET.get("spec", "")),
        feasibility,
        "/api/v1/checks/",
        kept_s=5.0,
        is_private=True,
    ),
    "guarantee": Source(
        lambda request: sampling.guarantee(
            decisions.decision(jobs_seen_by(request), request.GET.get("decision", ""))
        ),
        quality_cdf,
        "/api/v1/decisions/",
        is_private=True,
    ),
    "quality": Source(
        lambda request: sampling.quality(request.GET.get("r", ""), request.GET.get("source", "")),
        quality_cdf,
        "/api/v1/decisions/",
        kept_s=5.0,
    ),
    "pressure": Source(
        lambda request: servers.pressure(request.GET.get("server", "")),
        pressure,
        "/api/v1/servers/",
    ),
    "server-history": Source(
        lambda request: servers.history(request.GET.get("server", ""), asked_range(request)),
        server_history,
        "/api/v1/servers/",
    ),
}


def _named(request: HttpRequest) -> str:
    """Return the application that a figure is about."""
    return request.GET.get("application", "")


SOURCES["plan-progress"] = Source(
    lambda request: plan.progress(request.GET.get("plan", "")),
    plan_progress,
    "/api/v1/plans/{plan}/steps/",
    kept_s=1.0,
    needs=Role.OPERATOR,
)


CLASSIFICATION = "/api/v1/applications/{application}/classification/"
SOURCES |= {
    "scale-up": Source(
        lambda request: application.matrix_row(_named(request), MatrixName.SCALE_UP),
        scale_curve,
        CLASSIFICATION,
    ),
    "scale-out": Source(
        lambda request: application.matrix_row(_named(request), MatrixName.SCALE_OUT),
        scale_curve,
        CLASSIFICATION,
    ),
    "platform-speed": Source(
        lambda request: application.matrix_row(_named(request), MatrixName.HETEROGENEITY),
        platform_speed,
        CLASSIFICATION,
    ),
    "setting-speed": Source(
        lambda request: application.matrix_row(_named(request), MatrixName.FRAMEWORK),
        setting_speed,
        CLASSIFICATION,
    ),
    "interference": Source(
        lambda request: application.interference(_named(request)),
        interference,
        CLASSIFICATION,
    ),
    "prediction-error": Source(
        lambda request: application.prediction_errors(_named(request)),
        prediction_error,
        "/api/v1/applications/{application}/prediction-errors/",
    ),
    "matrix": Source(
        lambda request: classification.heat(classification.asked(request.GET)),
        matrix_heatmap,
        "/api/v1/matrices/{matrix}/cells/",
    ),
    "singular-values": Source(
        lambda request: classification.singular_values(classification.asked(request.GET)),
        singular_values,
        "/api/v1/matrices/{matrix}/",
    ),
    "calibration": Source(
        lambda request: classification.calibration(classification.asked(request.GET)),
        calibration,
        "/api/v1/matrices/{matrix}/",
    ),
    "revision-error": Source(
        lambda request: classification.revision_errors(classification.asked(request.GET)),
        revision_error,
        "/api/v1/revisions/",
    ),
}


def _feasibility(text: str) -> Feasibility:
    """Return what any size of the job in the address would achieve.

    Raises
    ------
    Http404 : the text is no job, or its application has no profile yet.
    """
    try:
        spec = parse_job(json.loads(text))
    except ValueError as error:  # InvalidInputError is one
        raise Http404(f"no job to predict: {error}") from error
    found = check_job(spec).feasibility
    if found is None:
        raise Http404(f"{spec.application} has no profile yet")
    return found


@page
def figure(request: HttpRequest, name: str) -> HttpResponse:
    """One figure; the same answer for everybody who asks within a moment."""
    source = SOURCES.get(name)
    if source is None:
        raise Http404(f"there is no figure {name!r}")
    if not has_role(request, source.needs):
        raise Http404(f"{name} is for people with the role {source.needs}")
    whose = request.user.pk if source.is_private else "all"
    key = f"dashboard.figure.{whose}.{name}?{request.GET.urlencode()}"
    body = cache.get(key)
    if body is None:
        body = figure_json(
            source, source.read(request), how=how_computed(name), asked=request.GET.dict()
        )
        cache.set(key, body, source.kept_s)
    return HttpResponse(body, content_type="application/json")


def figure_json(
    source: Source, data: object, *, how: str = "", asked: Mapping[str, str] | None = None
) -> str:
    """Title, subtitle, table and figure.

    The figure in Plotly's own JSON, whose arrays are typed blocks.
    """
    table = source.draw.table(data)
    about = {
        "title": source.draw.title(data),
        "sub": source.draw.sub(data),
        "as_of": words.cluster_day(cluster_now()),
        "how": how,
        "api": _address(source.api, asked or {}),
        "table": {"head": table.head, "rows": table.rows},
    }
    return f'{json.dumps(about)[:-1]}, "figure": {source.draw.figure(data).to_json()}}}'


def _address(api: str, asked: Mapping[str, str]) -> str:
    """Return the address of a call with what the figure was asked for in its places."""
    for name in re.findall(r"{(\w+)}", api):
        api = api.replace(f"{{{name}}}", quote(asked.get(name, ""), safe="/"))
    return api
