"""URLs of decisions, dry runs, and the decisions on jobs and servers."""

from apps.common.api.routes import route
from apps.scheduling.api import (
    check_views,
    counterfactual_views,
    policy_views,
    queue_views,
    replay_views,
    shadow_views,
    unit_views,
    views,
)

urlpatterns = [
    *route("checks/", check_views.DryRunView.as_view(), "api-checks"),
    *route("jobs/", check_views.JobListOrCheck.as_view(), "api-jobs"),
    *route("policies/", policy_views.PolicyList.as_view(), "api-policies"),
    *route("policies/default/", policy_views.DefaultPolicyView.as_view(), "api-default-policy"),
    *route("queues/", queue_views.QueueView.as_view(), "api-queues"),
    *route("decisions/", views.DecisionList.as_view(), "api-decisions"),
    *route("decisions/<uuid:decision_id>/", views.DecisionDetail.as_view(), "api-decision"),
    *route(
        "decisions/<uuid:decision_id>/candidates/",
        views.DecisionCandidates.as_view(),
        "api-decision-candidates",
    ),
    *route(
        "decisions/<uuid:decision_id>/counterfactuals/",
        counterfactual_views.DecisionCounterfactuals.as_view(),
        "api-decision-counterfactuals",
    ),
    *route(
        "decisions/<uuid:decision_id>/flips/",
        counterfactual_views.DecisionFlips.as_view(),
        "api-decision-flips",
    ),
    *route(
        "decisions/<uuid:decision_id>/replay/",
        replay_views.DecisionReplay.as_view(),
        "api-decision-replay",
    ),
    *route("shadows/", shadow_views.ShadowList.as_view(), "api-shadows"),
    *route("shadows/<uuid:shadow_id>/", shadow_views.ShadowDetail.as_view(), "api-shadow"),
    *route("shadows/<uuid:shadow_id>/stop/", shadow_views.ShadowStop.as_view(), "api-shadow-stop"),
    *route(
        "shadows/<uuid:shadow_id>/decisions/",
        shadow_views.ShadowDecisions.as_view(),
        "api-shadow-decisions",
    ),
    *route(
        "jobs/<uuid:job_id>/explanation/", views.JobExplanation.as_view(), "api-job-explanation"
    ),
    *route(
        "jobs/<uuid:job_id>/wait-estimate/",
        queue_views.JobWaitEstimate.as_view(),
        "api-job-wait-estimate",
    ),
    *route("jobs/<uuid:job_id>/placements/", views.JobPlacements.as_view(), "api-job-placements"),
    *route("jobs/<uuid:job_id>/decisions/", views.JobDecisions.as_view(), "api-job-decisions"),
    *route("jobs/<uuid:job_id>/events/", views.JobEvents.as_view(), "api-job-events"),
    *route("units/", unit_views.UnitList.as_view(), "api-units"),
    *route("servers/<str:key>/jobs/", views.ServerJobs.as_view(), "api-server-jobs"),
    *route(
        "servers/<str:key>/decisions/", views.ServerDecisions.as_view(), "api-server-decisions"
    ),
]
