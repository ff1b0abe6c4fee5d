"""Every read that a browser or a script can request, generated from the URL configuration.

A read is a GET of a page, a figure or a REST route; each filter and each order of a list makes
one more. Objects in addresses are rows of the database.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from django.db.models import Model
from django.urls import URLPattern, URLResolver, get_resolver

from apps.common.api.views import ListView
from apps.dashboard.core.application_query import SORTS, STANDINGS
from apps.dashboard.core.job_query import FLAGS, GROUPS, STATES
from apps.dashboard.core.ranges import RANGES_S
from apps.dashboard.views.figure_sources import FIGURES
from apps.inventory.models import Platform, Server
from apps.operations.models import Operation
from apps.profiling.models import ProfilingRun
from apps.scheduling.models import Decision
from apps.workloads.models import Batch, Job

NO_DATA: Final = frozenset(
    {"healthz", "readyz", "login", "logout", "api-docs", "api-schema", "api-unknown", "api-stream"}
)
ABSENT_ID: Final = "00000000-0000-7000-8000-000000000000"
TABS: Final = ("explain", "why", "performance", "allocation", "events", "spec", "api")
RANGED: Final = frozenset(
    {"utilisation", "attainment", "queue", "decision-latency", "power", "server-history"}
)


class UnknownParameterError(LookupError):
    """An address has a parameter without a sample here."""


@dataclass(frozen=True, slots=True)
class Read:
    """One GET request.

    Attributes
    ----------
    name : of the route; with the part of the query that distinguishes it
    address : path and query
    """

    name: str
    address: str


@dataclass(frozen=True, slots=True)
class Samples:
    """Rows to put into addresses and filters."""

    running: Job
    ended: Job
    waiting: Job
    server: Server
    decision: Decision

    @classmethod
    def from_database(cls) -> "Samples":
        """Choose jobs in the middle of their lists."""
        ended = Job.objects.filter(state="succeeded").order_by("created_at")
        return cls(
            running=_middle(Job.objects.filter(state="running")),
            ended=_middle(ended),
            waiting=_middle(Job.objects.filter(state="queued")),
            server=Server.objects.order_by("id")[0],
            decision=Decision.objects.order_by("-at")[10],
        )


def _middle(rows: Any) -> Any:
    return rows.order_by("created_at")[rows.count() // 2]


def reads() -> Iterator[Read]:
    """Yield all reads.

    Raises
    ------
    UnknownParameterError : a route has a parameter that `_SAMPLES` does not list.
    """
    samples = Samples.from_database()
    for address, pattern in _patterns(get_resolver().url_patterns):
        name = pattern.name
        if name is None or name in NO_DATA:
            continue
        if name == "figure":
            yield from _figures(samples)
        elif _takes_get(pattern):
            path = _filled(address, pattern, samples)
            yield Read(name, path)
            yield from _variants(name, path, pattern, samples)


def _patterns(patterns: Any, prefix: str = "/") -> Iterator[tuple[str, URLPattern]]:
    for pattern in patterns:
        address = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from _patterns(pattern.url_patterns, address)
        else:
            yield address, pattern


def _view_class(pattern: URLPattern) -> Any:
    return getattr(pattern.callback, "cls", getattr(pattern.callback, "view_class", None))


def _takes_get(pattern: URLPattern) -> bool:
    view = _view_class(pattern)
    return view is None or hasattr(view, "get")


def _filled(address: str, pattern: URLPattern, samples: Samples) -> str:
    """Return the address with samples in place of its parameters."""
    for parameter in pattern.pattern.converters:
        before, _, rest = address.partition("<")
        kind, _, after = rest.partition(">")
        key = f"{before.strip('/').split('/')[-1]}/{kind.partition(':')[2]}"
        if key not in _SAMPLES:
            raise UnknownParameterError(f"{pattern.name}: no sample for {key} ({parameter})")
        address = before + quote(_SAMPLES[key](samples)) + after
    return address


def _key(model: type[Model]) -> Callable[[Samples], str]:
    def newest(_: Samples) -> str:
        return str(model._default_manager.order_by("-pk").values_list("pk", flat=True)[0])

    return newest


def _absent(_: Samples) -> str:
    return ABSENT_ID


# by the part of the address before the parameter, and the parameter's name
_SAMPLES: Final[dict[str, Callable[[Samples], str]]] = {
    "jobs/job_id": lambda samples: str(samples.running.pk),
    "decisions/decision_id": lambda samples: str(samples.decision.pk),
    "servers/name": lambda samples: samples.server.name,
    "servers/key": lambda samples: samples.server.name,
    "applications/name": lambda samples: samples.running.application.name,
    "applications/key": lambda samples: samples.running.application.name,
    "arrays/array_id": _key(Batch),
    "batches/batch_id": _key(Batch),
    "operations/operation_id": _key(Operation),
    "platforms/platform_id": _key(Platform),
    "profiling-runs/run_id": _key(ProfilingRun),
    "matrices/name": lambda _: "heterogeneity",
    "revisions/number": lambda _: "1",
    "tokens/token_id": _absent,
    "users/key": lambda samples: samples.ended.created_by.username,
    "users/name": lambda samples: samples.ended.created_by.username,
    "projects/key": lambda samples: samples.ended.project.name,
    "projects/name": lambda samples: samples.ended.project.name,
    "audit/entry_id": lambda _: "1",
    "previews/preview_id": _absent,
    "plans/key": _absent,
    "fronts/key": _absent,
    "scenarios/scenario_id": _absent,
    "comparisons/comparison_id": _absent,
    "lab/comparison_id": _absent,
    "shadows/shadow_id": _absent,
    "preemptions/proposal_id": lambda _: "1",
    "measured-pairs/pair_id": _absent,
    "pairs/pair_id": _absent,
    "report-keys/key_id": _absent,
    "points/index": lambda _: "0",
    "objectives/name": lambda _: "P",
    "preference-sets/set_id": _absent,
}


def _figures(samples: Samples) -> Iterator[Read]:
    job, server = str(samples.running.pk), samples.server.name
    of_application = {"application": samples.running.application.name}
    needs = {
        "performance": {"job": job},
        "dip": {"job": job},
        "dip-pressure": {"job": job},
        "guarantee": {"decision": str(samples.decision.pk)},
        "pressure": {"server": server},
        "server-history": {"server": server},
        "plan-progress": {"plan": ABSENT_ID},
        "feasibility": {"spec": "{}"},
        "pair": {"pair": ABSENT_ID},
        **{name: {"comparison": ABSENT_ID} for name in FIGURES if name.startswith("lab-")},
    }
    for name in FIGURES:
        for span in RANGES_S if name in RANGED else ("",):
            query = {**needs.get(name, of_application), **({"range": span} if span else {})}
            suffix = f" {span}" if span else ""
            yield Read(f"figure {name}{suffix}", f"/figures/{name}/?{urlencode(query)}")


def _variants(name: str, path: str, pattern: URLPattern, samples: Samples) -> Iterator[Read]:
    """Yield the reads of one route with a query."""
    view = _view_class(pattern)
    if view is not None and issubclass(view, ListView):
        yield from _list_variants(name, path, view, samples)
    for query in _page_queries(name, samples):
        yield Read(f"{name} {urlencode(query)}", f"{path}?{urlencode(query)}")


def _list_variants(name: str, path: str, view: type[ListView], samples: Samples) -> Iterator[Read]:
    queries = [{"ordering": order} for order in view.orders]
    for parameter, one in view.filters.items():
        queries += [{parameter: value} for value in _filter_values(parameter, one.schema, samples)]
    for query in [*queries, {"count": "exact"}, {"limit": "60"}]:
        yield Read(f"{name} {urlencode(query)}", f"{path}?{urlencode(query)}")


def _filter_values(parameter: str, schema: Any, samples: Samples) -> list[str]:
    """Return values for a filter: one that many rows have, and one that none has."""
    job = samples.ended
    texts = {
        "application": [job.application.name, "absent"],
        "application__in": [job.application.name],
        "project": [job.project.name, "absent"],
        "name": [job.name, "absent"],
        "q": ["sort", job.name, "absent"],
        "label": ["team:team-7", "team:absent"],
        "request_id": ["reference", "absent"],
        "state__in": ["failed,cancelled", "submitted,profiling,queued"],
        "id__in": [str(job.pk)],
    }
    if parameter in texts:
        return texts[parameter]
    if "enum" in schema:
        return [str(value) for value in schema["enum"]]
    by_type = {
        "uuid": [str(job.batch_id or ABSENT_ID), ABSENT_ID],
        "date-time": [job.created_at.isoformat()],
        "boolean": ["true", "false"],
        "integer": ["1", "1000000"],
        "number": ["1", "1000000"],
    }
    return by_type.get(schema.get("format", schema["type"]), [job.name, "absent"])


def _page_queries(name: str, samples: Samples) -> list[dict[str, str]]:
    """Return the queries of a page."""
    job = samples.ended
    texts = [
        *(f"state:{state}" for state in (*STATES, *GROUPS)),
        *(f"is:{flag}" for flag in FLAGS),
        *(f"target:{kind}" for kind in ("completion_time", "best_effort", "absent")),
        *("reason:CapacityShort", "reason:JobFailed", "reason:absent"),
        *(f"app:{job.application.name}", "app:absent"),
        *(f"project:{job.project.name}", "project:absent", "label:team=team-7", "label:team=no"),
        *("priority:0", "priority:1", "priority:99", "sort", job.name, "absent", "s", "99"),
        *(f"app:{job.application.name} state:failed", "state:ended priority:1 label:team=team-7"),
    ]
    decisions = [
        *("app:absent", "policy:absent", "agent:absent", "reason:absent", "server:absent"),
        *(f"app:{job.application.name}", f"server:{samples.server.name}", "retries:1", job.name),
        *("reason:NoFreeUnit", "policy:expected", "sort", "absent", str(samples.decision.pk)),
    ]
    queries = {
        "decisions": decisions,
        "jobs": texts,
        "jobs-preview": texts,
        "search": [job.name, "srv-00", "sort", "absent", str(job.pk)],
        "go": [job.name, "absent", str(job.pk)],
        "applications": ["reference", "absent"],
    }
    tabs = [{"tab": tab} for tab in TABS] if name == "job" else []
    spans = [{"range": span} for span in RANGES_S] if name in {"overview", "decisions"} else []
    outcomes = ("placed", "refused", "conflict") if name == "decisions" else ()
    known = [{"application": job.application.name}] if name == "submit-usual" else []
    queue_filters = [
        *({"project": text} for text in (job.project.name, "absent")),
        *({"reason": text} for text in ("NoFreeUnit", "Held", "WaitingForAgent")),
        {"project": job.project.name, "reason": "NoFreeUnit"},
    ]
    sorts = SORTS if name == "applications" else {}
    standings = STANDINGS if name == "applications" else {}
    return [
        *({"q": text} for text in queries.get(name, [])),
        *tabs,
        *spans,
        *known,
        *(queue_filters if name in {"queues", "api-queues"} else []),
        *({"outcome": outcome} for outcome in outcomes),
        *({"sort": sort} for sort in sorts),
        *({"standing": standing} for standing in standings),
    ]
