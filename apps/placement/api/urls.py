"""URLs of objectives, fronts, preference sets and weights."""

from apps.common.api.routes import route
from apps.placement.api import front_views, objective_views, preference_views, weight_views

urlpatterns = [
    *route("objectives/", objective_views.ObjectiveList.as_view(), "api-objectives"),
    *route("objectives/<str:name>/", objective_views.ObjectiveDetail.as_view(), "api-objective"),
    *route("fronts/", front_views.FrontList.as_view(), "api-fronts"),
    *route("fronts/<str:key>/", front_views.FrontDetail.as_view(), "api-front"),
    *route("fronts/<str:key>/stop/", front_views.FrontStop.as_view(), "api-front-stop"),
    *route("fronts/<str:key>/points/", front_views.FrontPoints.as_view(), "api-front-points"),
    *route(
        "fronts/<str:key>/points/<int:index>/", front_views.FrontPoint.as_view(), "api-front-point"
    ),
    *route(
        "preference-sets/", preference_views.PreferenceSetList.as_view(), "api-preference-sets"
    ),
    *route("preference-sets/derive/", preference_views.DeriveView.as_view(), "api-derive"),
    *route(
        "preference-sets/check/",
        preference_views.PreferenceCheckView.as_view(),
        "api-preference-check",
    ),
    *route(
        "preference-sets/between/",
        preference_views.IntermediatePointsView.as_view(),
        "api-between",
    ),
    *route(
        "preference-sets/<uuid:set_id>/",
        preference_views.PreferenceSetDetail.as_view(),
        "api-preference-set",
    ),
    *route(
        "preference-sets/<uuid:set_id>/activate/",
        weight_views.ActivateView.as_view(),
        "api-preference-set-activate",
    ),
    *route("weights/current/", weight_views.WeightsInForce.as_view(), "api-weights"),
    *route("weights/activations/", weight_views.ActivationList.as_view(), "api-activations"),
    *route(
        "weights/activations/<int:activation_id>/revert/",
        weight_views.RevertView.as_view(),
        "api-activation-revert",
    ),
]
