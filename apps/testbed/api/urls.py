"""URLs of measurements and of the Lab under /api/v1/."""

from apps.common.api.routes import route
from apps.testbed.api import lab_views
from apps.testbed.api.lab_job_views import ComparisonJobs
from apps.testbed.api.pair_views import PairDetail, PairList
from apps.testbed.api.views import SamplingChecks

urlpatterns = [
    *route("sampling-checks/", SamplingChecks.as_view(), "api-sampling-checks"),
    *route("scenarios/", lab_views.ScenarioList.as_view(), "api-scenarios"),
    *route("scenarios/<uuid:scenario_id>/", lab_views.ScenarioDetail.as_view(), "api-scenario"),
    *route("comparisons/", lab_views.ComparisonList.as_view(), "api-comparisons"),
    *route(
        "comparisons/estimate/",
        lab_views.ComparisonEstimate.as_view(),
        "api-comparison-estimate",
    ),
    *route(
        "comparisons/<uuid:comparison_id>/",
        lab_views.ComparisonDetail.as_view(),
        "api-comparison",
    ),
    *route(
        "comparisons/<uuid:comparison_id>/resume/",
        lab_views.ComparisonResume.as_view(),
        "api-comparison-resume",
    ),
    *route(
        "comparisons/<uuid:comparison_id>/runs/",
        lab_views.ComparisonRuns.as_view(),
        "api-comparison-runs",
    ),
    *route(
        "comparisons/<uuid:comparison_id>/jobs/",
        ComparisonJobs.as_view(),
        "api-comparison-jobs",
    ),
    *route(
        "comparisons/<uuid:comparison_id>/bundle/",
        lab_views.ComparisonBundle.as_view(),
        "api-comparison-bundle",
    ),
    *route("measured-pairs/", PairList.as_view(), "api-measured-pairs"),
    *route("measured-pairs/<uuid:pair_id>/", PairDetail.as_view(), "api-measured-pair"),
]
