"""URLs of plans, previews and the loop."""

from apps.common.api.routes import route
from apps.placement.api import plan_views as views

urlpatterns = [
    *route("previews/", views.PreviewList.as_view(), "api-previews"),
    *route("previews/<uuid:preview_id>/", views.PreviewDetail.as_view(), "api-preview"),
    *route("plans/", views.PlanList.as_view(), "api-plans"),
    *route("plans/<str:key>/", views.PlanDetail.as_view(), "api-plan"),
    *route("plans/<str:key>/steps/", views.PlanSteps.as_view(), "api-plan-steps"),
    *route(
        "plans/<str:key>/verification/", views.PlanVerification.as_view(), "api-plan-verification"
    ),
    *route("plans/<str:key>/approve/", views.PlanApprove.as_view(), "api-plan-approve"),
    *route("plans/<str:key>/pause/", views.PlanPause.as_view(), "api-plan-pause"),
    *route("plans/<str:key>/resume/", views.PlanResume.as_view(), "api-plan-resume"),
    *route("plans/<str:key>/cancel/", views.PlanCancel.as_view(), "api-plan-cancel"),
    *route("plans/<str:key>/rollback/", views.PlanRollback.as_view(), "api-plan-rollback"),
    *route("placement-loop/", views.PlacementLoop.as_view(), "api-placement-loop"),
]
