"""The search field of the top bar."""

from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.urls import reverse
from django.utils.http import urlencode

from apps.dashboard.core.application_query import KINDS
from apps.dashboard.selectors import applications, jobs, servers
from apps.dashboard.views.access import page, visible_to
from apps.scheduling.models import Decision
from apps.workloads.models import Job


@page
def search(request: HttpRequest) -> HttpResponse:
    """Return a few servers, applications and jobs whose name contains the text."""
    return JsonResponse({"results": results_of(request, request.GET.get("q", "").strip())})


@page
def go(request: HttpRequest) -> HttpResponse:
    """Open the object with exactly this name or id, or else list matching jobs."""
    text = request.GET.get("q", "").strip()
    for result in results_of(request, text):
        if text in {result["name"], result["id"]}:
            return HttpResponseRedirect(result["url"])
    return HttpResponseRedirect(f"{reverse('jobs')}?{urlencode({'q': text})}")


def results_of(request: HttpRequest, text: str) -> list[dict[str, str]]:
    """Return servers, applications, jobs and decisions that the user may see, by name or id."""
    if len(text) < 2:
        return []
    visible = visible_to(request)
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
            "name": application.name,
            "id": str(application.id),
            "what": f"application, {KINDS.get(application.kind, application.kind)}",
            "url": reverse("application", args=[application.name]),
        }
        for application in applications.search(text)
    ]
    results += [
        {
            "name": job.name,
            "id": str(job.id),
            "what": f"job, {job.state}",
            "url": reverse("job", args=[job.id]),
        }
        for job in jobs.search(visible, text)
    ]
    return results + _decisions(visible, text)


def _decisions(visible: QuerySet[Job], text: str) -> list[dict[str, str]]:
    try:
        decision_id = UUID(text)
    except ValueError:
        return []
    decision = (
        Decision.objects.filter(id=decision_id, job__in=visible).select_related("job").first()
    )
    if decision is None:
        return []
    return [
        {
            "name": str(decision.id),
            "id": str(decision.id),
            "what": f"decision about {decision.job.name}",
            "url": reverse("decision", args=[decision.id]),
        }
    ]
