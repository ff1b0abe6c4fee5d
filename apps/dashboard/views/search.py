"""The search field of the top bar."""

from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.urls import reverse
from django.utils.http import urlencode

from apps.dashboard.core.application_query import KINDS
from apps.dashboard.selectors import applications, jobs, servers
from apps.dashboard.views.access import jobs_seen_by, page
from apps.scheduling.models import Decision
from apps.workloads.models import Job


@page
def search(request: HttpRequest) -> HttpResponse:
    """Servers, applications and jobs whose name holds the text, a few of each."""
    return JsonResponse({"results": _found(request, request.GET.get("q", "").strip())})


@page
def go(request: HttpRequest) -> HttpResponse:
    """Open the one thing with exactly this name or id; otherwise list the jobs that match."""
    text = request.GET.get("q", "").strip()
    for result in _found(request, text):
        if text in {result["name"], result["id"]}:
            return HttpResponseRedirect(result["url"])
    return HttpResponseRedirect(f"{reverse('jobs')}?{urlencode({'q': text})}")


def _found(request: HttpRequest, text: str) -> list[dict[str, str]]:
    if len(text) < 2:
        return []
    seen = jobs_seen_by(request)
    results = [
        {
            "name": server.name,
            "id": server.name,
            "what": f"server, platform {server.platform.name}",
            "url": reverse("server", args=[server.name]),
        }
        for server in servers.search(text)
    ]
    results += [
        {
            "name": found.name,
            "id": str(found.id),
            "what": f"application, {KINDS.get(found.kind, found.kind)}",
            "url": reverse("application", args=[found.name]),
        }
        for found in applications.search(text)
    ]
    results += [
        {
            "name": job.name,
            "id": str(job.id),
            "what": f"job, {job.state}",
            "url": reverse("job", args=[job.id]),
        }
        for job in jobs.search(seen, text)
    ]
    return results + _decisions(seen, text)


def _decisions(seen: QuerySet[Job], text: str) -> list[dict[str, str]]:
    try:
        wanted = UUID(text)
    except ValueError:
        return []
    found = Decision.objects.filter(id=wanted, job__in=seen).select_related("job").first()
    if found is None:
        return []
    return [
        {
            "name": str(found.id),
            "id": str(found.id),
            "what": f"decision about {found.job.name}",
            "url": reverse("decision", args=[found.id]),
        }
    ]
