"""The permission of every route: who may use it, and what the others get.

A new route needs one line in `RULES`, a new figure one in `FIGURES`. An object of a new kind
needs an id in `scene.Scene.arguments`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from tests.permissions.routes import Route


class Who(StrEnum):
    """A caller. "The project" is the one that owns the private objects of the scene."""

    ANONYMOUS = "anonymous"
    NEWCOMER = "viewer without a project"
    OUTSIDER = "admin of another project"
    READER = "viewer of the project"
    VISITOR = "viewer of the project and submitter of another one"
    MEMBER = "submitter of the project"
    LIMITED_MEMBER = "token of the submitter, limited to viewer"
    OPERATOR = "operator"
    LIMITED_OPERATOR = "token of the operator, limited to viewer"
    ADMIN = "admin"


# They see no private object of the project.
BLIND: Final = frozenset({Who.ANONYMOUS, Who.NEWCOMER, Who.OUTSIDER, Who.LIMITED_OPERATOR})
# They have a token instead of a session, so they cannot open pages.
WITHOUT_SESSION: Final = frozenset({Who.ANONYMOUS, Who.LIMITED_MEMBER, Who.LIMITED_OPERATOR})

OK: Final = 0  # the request passes the permission checks
Audience = Mapping[Who, int]  # status by caller


def _audience(default: int, **statuses: int) -> Audience:
    named = {Who[name.upper()]: status for name, status in statuses.items()}
    return dict.fromkeys(Who, default) | {Who.ANONYMOUS: 401} | named


EVERYBODY = _audience(OK, anonymous=OK)
SIGNED_IN = _audience(OK)
UNLIMITED = _audience(OK, limited_member=403, limited_operator=403)  # no limited token
SUBMITTERS = _audience(403, outsider=OK, visitor=OK, member=OK, operator=OK, admin=OK)
OPERATORS = _audience(403, operator=OK, admin=OK)
ADMINS = _audience(403, admin=OK)
PROJECT_READERS = _audience(OK, newcomer=404, outsider=404, limited_operator=404)
PROJECT_WRITERS = _audience(403, outsider=404, member=OK, operator=OK, admin=OK)
NOT_SIGNED_IN = {who: OK if who in WITHOUT_SESSION else 302 for who in Who}
MEMBERS = _audience(403, outsider=422, member=OK, operator=422, admin=422)  # joined the project
TOKEN_OWNER = _audience(404, member=OK)
AGENTS = dict.fromkeys(Who, 401)  # with a credential of their own
PREVIEW_OWNER = _audience(403, operator=OK, admin=404)


def on_page(audience: Audience) -> Audience:
    """Return the statuses of a page: callers without a session are sent to sign in."""
    return {who: 302 if who in WITHOUT_SESSION else audience[who] for who in Who}


@dataclass(frozen=True, slots=True)
class Rule:
    """Who may use a route.

    Attributes
    ----------
    methods : audience by method; every other method is not allowed (405)
    query : query string, with placeholders of `scene.Scene.arguments`
    body : body by method; ``{}`` if absent
    secrets : further texts that blind callers must not find, as placeholders
    """

    methods: Mapping[str, Audience]
    query: str = ""
    body: Mapping[str, Any] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()


def api(
    *,
    query: str = "",
    body: Mapping[str, Any] | None = None,
    secrets: tuple[str, ...] = (),
    **methods: Audience,
) -> Rule:
    """Return the rule of a REST route."""
    return Rule({name.upper(): who for name, who in methods.items()}, query, body or {}, secrets)


def page(
    audience: Audience = SIGNED_IN, *, query: str = "", secrets: tuple[str, ...] = ()
) -> Rule:
    """Return the rule of a page."""
    return Rule({"GET": on_page(audience)}, query, secrets=secrets)


JOB = {"application": "shared-app", "target": {"kind": "best_effort"}}
IN_PROJECT = {"metadata": {"project": "{project}"}, "spec": JOB}
APPLICATION = "{application}"  # that a private job runs it is private; its profile is not

RULES: Final[dict[str, Rule]] = {
    "healthz": api(get=EVERYBODY),
    "readyz": api(get=EVERYBODY),
    "metrics": api(get={who: OK if "token" in who else 401 for who in Who}),
    "api/docs/": api(get=EVERYBODY),
    "api/v1/version": api(get=EVERYBODY),
    "api/v1/errors": api(get=EVERYBODY),
    "api/v1/schema": api(get=EVERYBODY),
    "api/v1": api(get=dict.fromkeys(Who, 404)),
    # accounts
    "api/v1/me": api(get=SIGNED_IN),
    "api/v1/tokens": api(get=SIGNED_IN, post=SIGNED_IN, body={"POST": {"name": "new"}}),
    "api/v1/tokens/<uuid:token_id>": api(get=TOKEN_OWNER, delete=TOKEN_OWNER),
    "api/v1/account/password": api(post=UNLIMITED),
    "api/v1/account/sessions": api(get=UNLIMITED, delete=UNLIMITED),
    "api/v1/account/sessions/<uuid:session_id>": api(
        delete=_audience(404, limited_member=403, limited_operator=403)
    ),
    "api/v1/users": api(get=ADMINS, post=ADMINS),
    "api/v1/users/<str:key>": api(get=ADMINS, patch=ADMINS),
    "api/v1/users/<str:key>/reset-password": api(post=ADMINS),
    "api/v1/users/<str:key>/tokens": api(get=ADMINS, post=ADMINS),
    "api/v1/users/<str:key>/tokens/<uuid:token_id>": api(delete=ADMINS),
    "api/v1/blocked-sign-ins": api(get=ADMINS),
    "api/v1/blocked-sign-ins/<uuid:counter_id>": api(delete=ADMINS),
    "api/v1/projects": api(get=SIGNED_IN, post=ADMINS),
    "api/v1/projects/<str:key>": api(get=PROJECT_READERS, patch=ADMINS, delete=ADMINS),
    "api/v1/projects/<str:key>/members": api(get=PROJECT_READERS, post=ADMINS),
    "api/v1/projects/<str:key>/members/<str:user>": api(delete=ADMINS),
    "api/v1/audit": api(get=ADMINS),
    "api/v1/audit/export": api(get=ADMINS, query="as=csv"),
    "api/v1/audit/<int:entry_id>": api(get=ADMINS),
    # events and operations
    "api/v1/events": api(get=SIGNED_IN),
    "api/v1/changes": api(get=SIGNED_IN, query="since=0"),
    "api/v1/stream": api(get=EVERYBODY),
    "api/v1/stream/tickets": api(post=SIGNED_IN),
    "api/v1/operations": api(get=SIGNED_IN),
    "api/v1/operations/<uuid:operation_id>": api(get=PROJECT_READERS),
    "api/v1/operations/<uuid:operation_id>/cancel": api(post=PROJECT_WRITERS),
    "api/v1/sampling-checks": api(post=OPERATORS),
    "api/v1/scenarios": api(get=OPERATORS, post=OPERATORS),
    "api/v1/scenarios/<uuid:scenario_id>": api(get=OPERATORS, delete=OPERATORS),
    "api/v1/comparisons": api(get=OPERATORS, post=OPERATORS),
    "api/v1/comparisons/estimate": api(post=OPERATORS),
    "api/v1/comparisons/<uuid:comparison_id>": api(get=OPERATORS, delete=OPERATORS),
    "api/v1/comparisons/<uuid:comparison_id>/resume": api(post=OPERATORS),
    "api/v1/comparisons/<uuid:comparison_id>/runs": api(get=OPERATORS),
    "api/v1/comparisons/<uuid:comparison_id>/jobs": api(get=OPERATORS),
    "api/v1/comparisons/<uuid:comparison_id>/bundle": api(get=OPERATORS),
    "api/v1/measured-pairs": api(get=OPERATORS, post=OPERATORS),
    "api/v1/measured-pairs/<uuid:pair_id>": api(get=OPERATORS),
    # inventory
    "api/v1/cluster": api(get=SIGNED_IN),
    "api/v1/cluster/clock": api(get=SIGNED_IN),
    "api/v1/cluster/map": api(get=SIGNED_IN),
    "api/v1/policies": api(get=SIGNED_IN),
    "api/v1/policies/default": api(get=SIGNED_IN, put=ADMINS),
    "api/v1/platforms": api(get=SIGNED_IN),
    "api/v1/platforms/<int:platform_id>": api(get=SIGNED_IN),
    "api/v1/interference-sources": api(get=SIGNED_IN),
    "api/v1/servers": api(get=SIGNED_IN),
    "api/v1/servers/<str:key>": api(get=SIGNED_IN, secrets=(APPLICATION,)),
    "api/v1/servers/<str:key>/units": api(get=SIGNED_IN, secrets=(APPLICATION,)),
    "api/v1/servers/<str:key>/drain": api(post=OPERATORS),
    "api/v1/servers/<str:key>/undrain": api(post=OPERATORS),
    "api/v1/servers/<str:key>/cordon": api(post=OPERATORS),
    "api/v1/servers/<str:key>/jobs": api(get=SIGNED_IN, secrets=(APPLICATION,)),
    "api/v1/servers/<str:key>/decisions": api(get=SIGNED_IN, secrets=(APPLICATION,)),
    "api/v1/units": api(get=SIGNED_IN, secrets=(APPLICATION,)),
    # profiling
    "api/v1/profiling-runs": api(get=SIGNED_IN),
    "api/v1/profiling-runs/<uuid:run_id>": api(get=SIGNED_IN),
    "api/v1/applications/<path:key>/profiling-runs": api(get=SIGNED_IN, post=SUBMITTERS),
    # classification
    "api/v1/report-keys": api(get=ADMINS, post=ADMINS),
    "api/v1/report-keys/<uuid:key_id>": api(delete=ADMINS),
    "api/v1/profile-reports": api(get=SIGNED_IN, post=OPERATORS),
    "api/v1/matrices": api(get=SIGNED_IN),
    "api/v1/matrices/<str:name>": api(get=SIGNED_IN),
    "api/v1/matrices/<str:name>/cells": api(get=SIGNED_IN),
    "api/v1/revisions": api(get=SIGNED_IN, post=OPERATORS),
    "api/v1/revisions/<int:number>": api(get=SIGNED_IN),
    "api/v1/applications/<path:key>/classification": api(get=SIGNED_IN),
    "api/v1/applications/<path:key>/estimates": api(get=SIGNED_IN),
    "api/v1/applications/<path:key>/measurements": api(get=SIGNED_IN),
    "api/v1/applications/<path:key>/prediction-errors": api(get=SIGNED_IN),
    "api/v1/applications/<path:key>/overrides": api(
        get=SIGNED_IN, post=OPERATORS, delete=OPERATORS
    ),
    "api/v1/applications/<path:key>/overrides/<uuid:override_id>": api(delete=OPERATORS),
    "api/v1/applications/<path:key>/overrides/preview": api(post=SUBMITTERS),
    # workloads
    "api/v1/applications": api(get=SIGNED_IN, post=SUBMITTERS),
    "api/v1/applications/<path:key>": api(get=SIGNED_IN, patch=OPERATORS),
    "api/v1/jobs": api(get=SIGNED_IN, post=MEMBERS, body={"POST": IN_PROJECT}),
    "api/v1/jobs/cancel": api(
        post=_audience(403, outsider=400, member=OK, operator=OK, admin=OK),
        query="project={project}",
        body={"POST": {"expect": "{jobs_of_project}"}},
    ),
    "api/v1/jobs/<uuid:job_id>": api(
        get=PROJECT_READERS, patch=PROJECT_WRITERS, delete=PROJECT_WRITERS
    ),
    "api/v1/jobs/<uuid:job_id>/cancel": api(post=PROJECT_WRITERS),
    "api/v1/jobs/<uuid:job_id>/hold": api(post=PROJECT_WRITERS),
    "api/v1/jobs/<uuid:job_id>/release": api(post=PROJECT_WRITERS),
    "api/v1/jobs/<uuid:job_id>/rerun": api(post=PROJECT_WRITERS),
    "api/v1/jobs/<uuid:job_id>/suspend": api(post=PROJECT_WRITERS),
    "api/v1/jobs/<uuid:job_id>/resume": api(post=PROJECT_WRITERS),
    "api/v1/batches": api(
        get=SIGNED_IN, post=MEMBERS, body={"POST": {"project": "{project}", "items": [JOB]}}
    ),
    "api/v1/batches/<uuid:batch_id>": api(get=PROJECT_READERS),
    "api/v1/batches/<uuid:batch_id>/items": api(get=PROJECT_READERS),
    "api/v1/batches/<uuid:batch_id>/cancel": api(
        post=PROJECT_WRITERS, body={"POST": {"expect": 1}}
    ),
    "api/v1/arrays": api(
        get=SIGNED_IN, post=MEMBERS, body={"POST": {**IN_PROJECT, "array": {"size": 2}}}
    ),
    "api/v1/arrays/<uuid:array_id>": api(
        get=PROJECT_READERS, patch=PROJECT_WRITERS, body={"PATCH": {"limit": 3}}
    ),
    "api/v1/arrays/<uuid:array_id>/cancel": api(post=PROJECT_WRITERS),
    # scheduling
    "api/v1/checks": api(post=MEMBERS, body={"POST": IN_PROJECT}),
    "api/v1/decisions": api(get=SIGNED_IN, secrets=(APPLICATION,)),
    "api/v1/decisions/<uuid:decision_id>": api(get=PROJECT_READERS),
    "api/v1/decisions/<uuid:decision_id>/candidates": api(get=PROJECT_READERS),
    "api/v1/decisions/<uuid:decision_id>/counterfactuals": api(
        post=PROJECT_READERS, body={"POST": {"policy": "least_loaded"}}
    ),
    "api/v1/decisions/<uuid:decision_id>/flips": api(get=PROJECT_READERS),
    "api/v1/decisions/<uuid:decision_id>/replay": api(post=PROJECT_READERS),
    "api/v1/shadows": api(
        get=OPERATORS, post=OPERATORS, body={"POST": {"policy": "random", "share": 0.1}}
    ),
    "api/v1/shadows/<uuid:shadow_id>": api(get=OPERATORS),
    "api/v1/shadows/<uuid:shadow_id>/stop": api(post=OPERATORS),
    "api/v1/shadows/<uuid:shadow_id>/decisions": api(get=OPERATORS),
    "api/v1/queues": api(get=SIGNED_IN, secrets=(APPLICATION,)),
    "api/v1/jobs/<uuid:job_id>/wait-estimate": api(get=PROJECT_READERS),
    "api/v1/jobs/<uuid:job_id>/explanation": api(get=PROJECT_READERS),
    "api/v1/jobs/<uuid:job_id>/placements": api(get=PROJECT_READERS),
    "api/v1/jobs/<uuid:job_id>/decisions": api(get=PROJECT_READERS),
    "api/v1/jobs/<uuid:job_id>/events": api(get=PROJECT_READERS),
    # execution
    "api/v1/jobs/<uuid:job_id>/metrics": api(get=PROJECT_READERS),
    "api/v1/jobs/<uuid:job_id>/diagnosis": api(get=PROJECT_READERS),
    "api/v1/jobs/<uuid:job_id>/migrations": api(get=PROJECT_READERS),
    "api/v1/jobs/<uuid:job_id>/tasks": api(get=PROJECT_READERS),
    "api/v1/jobs/<uuid:job_id>/output": api(get=PROJECT_READERS),
    "api/v1/jobs/<uuid:job_id>/files": api(get=PROJECT_READERS),
    "api/v1/jobs/<uuid:job_id>/preemption": api(get=OPERATORS),
    "api/v1/jobs/<uuid:job_id>/preemption/apply": api(
        post=OPERATORS, body={"POST": {"basis": "0"}}
    ),
    "api/v1/preemptions": api(get=SIGNED_IN, secrets=(APPLICATION,)),
    "api/v1/preemptions/<int:proposal_id>": api(get=PROJECT_READERS),
    "api/v1/preemptions/<int:proposal_id>/apply": api(post=OPERATORS),
    "api/v1/preemptions/<int:proposal_id>/dismiss": api(post=OPERATORS),
    # agents: no user may do what an agent does
    "api/v1/agents": api(get=OPERATORS),
    "api/v1/agents/<str:name>": api(delete=ADMINS),
    "api/v1/agents/enrolment-tokens": api(post=ADMINS),
    "api/v1/agents/enrol": api(post=EVERYBODY),
    "api/v1/agents/register": api(post=AGENTS),
    "api/v1/agents/sync": api(post=AGENTS),
    "api/v1/agents/output": api(post=AGENTS),
    "api/v1/agents/files": api(post=AGENTS),
    "api/v1/agents/credential": api(post=AGENTS),
    # placement: plans name jobs of all projects
    "api/v1/previews": api(post=OPERATORS),
    "api/v1/previews/<uuid:preview_id>": api(get=PREVIEW_OWNER, delete=PREVIEW_OWNER),
    "api/v1/plans": api(get=OPERATORS, post=OPERATORS),
    "api/v1/plans/<str:key>": api(get=OPERATORS),
    "api/v1/plans/<str:key>/steps": api(get=OPERATORS, patch=OPERATORS),
    "api/v1/plans/<str:key>/verification": api(get=OPERATORS),
    "api/v1/plans/<str:key>/approve": api(post=OPERATORS),
    "api/v1/plans/<str:key>/pause": api(post=OPERATORS),
    "api/v1/plans/<str:key>/resume": api(post=OPERATORS),
    "api/v1/plans/<str:key>/cancel": api(post=OPERATORS),
    "api/v1/plans/<str:key>/rollback": api(post=OPERATORS),
    "api/v1/placement-loop": api(get=OPERATORS, patch=OPERATORS),
    "api/v1/objectives": api(get=SIGNED_IN, post=ADMINS),
    "api/v1/objectives/<str:name>": api(get=SIGNED_IN, patch=ADMINS, delete=ADMINS),
    "api/v1/fronts": api(get=SIGNED_IN, post=OPERATORS),
    "api/v1/fronts/<str:key>": api(get=SIGNED_IN),
    "api/v1/fronts/<str:key>/stop": api(post=OPERATORS),
    "api/v1/fronts/<str:key>/points": api(get=SIGNED_IN),
    "api/v1/fronts/<str:key>/points/<int:index>": api(get=OPERATORS),
    "api/v1/preference-sets": api(get=SIGNED_IN, post=OPERATORS),
    "api/v1/preference-sets/derive": api(post=SIGNED_IN),
    "api/v1/preference-sets/check": api(post=SIGNED_IN),
    "api/v1/preference-sets/between": api(post=SIGNED_IN),
    "api/v1/preference-sets/<uuid:set_id>": api(get=SIGNED_IN, patch=OPERATORS, delete=OPERATORS),
    "api/v1/preference-sets/<uuid:set_id>/activate": api(post=OPERATORS),
    "api/v1/weights/current": api(get=SIGNED_IN),
    "api/v1/weights/activations": api(get=SIGNED_IN),
    "api/v1/weights/activations/<int:activation_id>/revert": api(post=OPERATORS),
    # pages
    "": page(),
    "login/": api(get=NOT_SIGNED_IN, post=NOT_SIGNED_IN, put=NOT_SIGNED_IN),
    "logout/": api(post=dict.fromkeys(Who, 302)),
    "account/": page(),
    "account/password/": page(dict.fromkeys(Who, 302)),
    "users/": page(ADMINS),
    "users/<str:name>/": page(ADMINS),
    "projects/": page(),
    "projects/<str:name>/": page(PROJECT_READERS),
    "audit/": page(ADMINS),
    "submit/": page(),
    "jobs/": page(),
    "jobs/preview/": page(),
    "queues/": page(secrets=(APPLICATION,)),
    "submit/usual.json": page(query="application={application}"),
    "jobs/<uuid:job_id>/": page(PROJECT_READERS),
    "map/": page(),
    "map/layout.json": page(),
    "map/state.json": page(),
    "servers/<str:name>/": page(secrets=(APPLICATION,)),
    "applications/": page(),
    "applications/<path:name>/": page(),
    "classification/": page(),
    "calibrate/": page(),
    "plans/": page(OPERATORS),
    "plans/<str:key>/": page(OPERATORS),
    "decisions/": page(secrets=(APPLICATION,)),
    "decisions/<uuid:decision_id>/": page(PROJECT_READERS),
    "policies/": page(),
    "shadows/": page(OPERATORS),
    "shadows/<uuid:shadow_id>/": page(OPERATORS),
    "sampling/": page(),
    "lab/": page(OPERATORS),
    "pairs/": page(OPERATORS),
    "pairs/<uuid:pair_id>/": page(OPERATORS),
    "lab/<uuid:comparison_id>/": page(OPERATORS),
    "system/": page(),
    "search/": page(query="q=zq-secret"),
    "go/": page(dict.fromkeys(Who, 302), query="q=zq-secret-job"),
}

ABOUT_APPLICATION = "application={application}"
FIGURES: Final[dict[str, Rule]] = {
    "utilisation": page(),
    "attainment": page(),
    "queue": page(),
    "decision-latency": page(),
    "power": page(),
    "jobs-by-project": page(),
    **{f"system-{of}": page() for of in ("queues", "rate", "time", "conflicts", "streams")},
    "pair": page(_audience(404, operator=OK, admin=OK), query="pair={measured-pairs}"),
    "pair-deviation": page(_audience(404, operator=OK, admin=OK)),
    "performance": page(PROJECT_READERS, query="job={jobs}"),
    "dip": page(PROJECT_READERS, query="job={jobs}"),
    "dip-pressure": page(PROJECT_READERS, query="job={jobs}"),
    "feasibility": page(query=f"spec={json.dumps({**JOB, 'input_bytes': 10**9})}"),
    "guarantee": page(PROJECT_READERS, query="decision={decisions}"),
    "quality": page(query="r=8&source=live"),
    "pressure": page(query="server={servers}", secrets=(APPLICATION,)),
    "server-history": page(query="server={servers}"),
    "plan-progress": page(_audience(404, operator=OK, admin=OK), query="plan={plans}"),
    **{
        f"lab-{of}": page(_audience(404, operator=OK, admin=OK), query="comparison={comparisons}")
        for of in ("curves", "differences", "front", "halving", "used")
    },
    "scale-up": page(query=ABOUT_APPLICATION),
    "scale-out": page(query=ABOUT_APPLICATION),
    "platform-speed": page(query=ABOUT_APPLICATION),
    "setting-speed": page(query=ABOUT_APPLICATION),
    "interference": page(query=ABOUT_APPLICATION),
    "prediction-error": page(query=ABOUT_APPLICATION),
    "matrix": page(),
    "singular-values": page(),
    "calibration": page(),
    "revision-error": page(),
}
# The views of one page that need their own request.
VARIANTS: Final[dict[str, tuple[str, ...]]] = {
    "jobs/<uuid:job_id>/": tuple(
        f"tab={tab}"
        for tab in ("explain", "why", "performance", "allocation", "events", "spec", "api")
    ),
    "jobs/": ("q=zq-secret", "q=project:{project}"),
    "api/v1/jobs": ("project={project}", "q=zq-secret", "count=exact"),
    "api/v1/events": ("subject={jobs}", "topic=operations"),
    "api/v1/decisions": ("job={jobs}",),
}
FIGURE_ROUTE: Final = "figures/<slug:name>/"


def disagreements(
    routes: Mapping[str, Route], rules: Mapping[str, Rule], figures: frozenset[str]
) -> list[str]:
    """Return a sentence for each route, method or figure without a rule, and vice versa."""
    named = {**rules, **{f"figure {name}": rule for name, rule in FIGURES.items()}}
    named.pop(FIGURE_ROUTE, None)
    needed = {name for name in routes if name != FIGURE_ROUTE}
    needed |= {f"figure {name}" for name in figures}
    problems = [f"{name!r} has no rule" for name in sorted(needed - named.keys())]
    problems += [f"the rule of {name!r} has no route" for name in sorted(named.keys() - needed)]
    for name in sorted(needed & routes.keys() & named.keys()):
        handled = routes[name].methods
        if handled is not None and handled != named[name].methods.keys():
            missing = sorted(handled ^ named[name].methods.keys())
            problems.append(f"{name!r}: {', '.join(missing)} differ from the methods of its view")
    return problems
