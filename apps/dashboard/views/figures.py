"""Figures as JSON: the chart, its title and the same data as a table."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from urllib.parse import quote

from django.core.cache import cache
from django.http import Http404, HttpRequest, HttpResponse

from apps.common.api.etags import entity_tag, is_unchanged
from apps.common.core.errors import NotFoundError
from apps.dashboard.core import formats
from apps.dashboard.core.figure_methods import method_text
from apps.dashboard.views.access import has_role, page, visible_to
from apps.dashboard.views.figure_sources import (
    FIGURES,
    FigureRequest,
    FigureSource,
    PrivateFigure,
    SharedFigure,
)
from apps.inventory.selectors import cluster_now

AS_OF = re.compile(r'"as_of": "[^"]*", ')


@page
def figure(request: HttpRequest, name: str) -> HttpResponse:
    """Return one figure as JSON, cached for a moment."""
    source = FIGURES.get(name)
    if source is None:
        raise Http404(f"There is no figure {name!r}")
    if not has_role(request, source.needs):
        raise Http404(f"{name} needs the role {source.needs}")
    owner = request.user.pk if isinstance(source, PrivateFigure) else "all"
    asked = sha256(request.GET.urlencode().encode()).hexdigest()  # a job may be in the address
    key = f"dashboard.drawn.{owner}.{name}.{asked}"
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
