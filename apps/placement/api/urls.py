"""Addresses of fronts, preference sets and weights."""

from apps.common.routes import route
from apps.placement.api import front_views

urlpatterns = [
    *route("objectives/", front_views.ObjectiveList.as_view(), "api-objectives"),
    *route("fronts/", front_views.FrontList.as_view(), "api-fronts"),
    *route("fronts/<str:key>/", front_views.FrontDetail.as_view(), "api-front"),
    *route("fronts/<str:key>/stop/", front_views.FrontStop.as_view(), "api-front-stop"),
    *route("fronts/<str:key>/points/", front_views.FrontPoints.as_view(), "api-front-points"),
    *route(
        "fronts/<str:key>/points/<int:index>/", front_views.FrontPoint.as_view(), "api-front-point"
    ),
]
