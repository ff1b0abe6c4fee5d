"""Addresses of the pages."""

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import path

from apps.dashboard.views import (
    applications,
    calibrate,
    classification,
    decisions,
    figures,
    jobs,
    overview,
    plans,
    search,
    servers,
    submit,
    system,
)

urlpatterns = [
    path("", overview.overview, name="overview"),
    path(
        "login/",
        LoginView.as_view(template_name="dashboard/login.html", redirect_authenticated_user=True),
        name="login",
    ),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("submit/", submit.submit, name="submit"),
    path("jobs/", jobs.jobs, name="jobs"),
    path("jobs/preview/", jobs.preview, name="jobs-preview"),
    path("jobs/<uuid:job_id>/", jobs.job, name="job"),
    path("map/", servers.cluster_map, name="map"),
    path("map/layout.json", servers.map_layout, name="map-layout"),
    path("map/state.json", servers.map_state, name="map-state"),
    path("servers/<str:name>/", servers.server, name="server"),
    path("applications/", applications.applications, name="applications"),
    path("applications/<path:name>/", applications.application, name="application"),
    path("classification/", classification.classification, name="classification"),
    path("calibrate/", calibrate.calibrate, name="calibrate"),
    path("plans/", plans.plans, name="plans"),
    path("plans/<str:key>/", plans.plan, name="plan"),
    path("decisions/", decisions.decisions, name="decisions"),
    path("decisions/<uuid:decision_id>/", decisions.decision, name="decision"),
    path("sampling/", decisions.sampling, name="sampling"),
    path("system/", system.system, name="system"),
    path("figures/<slug:name>/", figures.figure, name="figure"),
    path("search/", search.search, name="search"),
    path("go/", search.go, name="go"),
]
