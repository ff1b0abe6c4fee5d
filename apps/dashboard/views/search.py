"""The search field of the top bar."""

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.urls import reverse
from django.utils.http import urlencode

from apps.dashboard.selectors import jobs, servers
from apps.dashboard.views.access import page
from apps.scheduling.models import Decision


@page
def search(request: HttpRequest) -> HttpResponse:
    """Jobs and servers whose name holds the text, at most ten."""
    return JsonResponse({"results": _found(request.GET.get("q", "").strip())})


@page
def go(request: HttpRequest) -> HttpResponse:
    """Open the one thing with exactly this name or id; otherwise list the jobs that match."""
    text = request.GET.get("q", "").strip()
    for result in _found(text):
        if text in {result["name"], result["id"]}:
            return HttpResponseRedirect(result["url"])
    return HttpResponseRedirect(f"{reverse('jobs')}?{urlencode({'q': text})}")


def _found(text: str) -> list[dict[str, str]]:
    if len(text) < 2:
        return []
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
            "name": job.name,
            "id": str(job.id),
            "what": f"job, {job.state}",
            "url": reverse("job", args=[job.id]),
        }
        for job in jobs.search(text)
    ]
    return results + _decisions(text)


def _decisions(text: str) -> list[dict[str, str]]:
    if len(text) != 36:
        return []
    found = Decision.objects.filter(id=text).select_related("job").first() if _is_uuid(text) else None
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


def _is_uuid(text: str) -> bool:
    parts = text.split("-")
    return [len(part) for part in parts] == [8, 4, 4, 4, 12] and all(
        c in "0123456789abcdefABCDEF-" for c in text
    )
