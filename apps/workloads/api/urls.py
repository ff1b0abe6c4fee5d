"""URLs of applications, jobs and batches."""

from apps.common.api.routes import route
from apps.workloads.api import (
    application_views,
    array_views,
    batch_views,
    files_views,
    job_views,
)

urlpatterns = [
    *route("jobs/cancel/", job_views.JobsCancel.as_view(), "api-jobs-cancel"),
    *route("jobs/<uuid:job_id>/", job_views.JobDetail.as_view(), "api-job"),
    *route("jobs/<uuid:job_id>/cancel/", job_views.JobCancel.as_view(), "api-job-cancel"),
    *route("jobs/<uuid:job_id>/hold/", job_views.JobHold.as_view(), "api-job-hold"),
    *route("jobs/<uuid:job_id>/release/", job_views.JobRelease.as_view(), "api-job-release"),
    *route("jobs/<uuid:job_id>/rerun/", job_views.JobRerun.as_view(), "api-job-rerun"),
    *route("jobs/<uuid:job_id>/files/", files_views.JobFiles.as_view(), "api-job-files"),
    *route("batches/", batch_views.BatchList.as_view(), "api-batches"),
    *route("batches/<uuid:batch_id>/", batch_views.BatchDetail.as_view(), "api-batch"),
    *route("batches/<uuid:batch_id>/items/", batch_views.BatchItems.as_view(), "api-batch-items"),
    *route(
        "batches/<uuid:batch_id>/cancel/", batch_views.BatchCancel.as_view(), "api-batch-cancel"
    ),
    *route("arrays/", array_views.ArrayList.as_view(), "api-arrays"),
    *route("arrays/<uuid:array_id>/", array_views.ArrayDetail.as_view(), "api-array"),
    *route(
        "arrays/<uuid:array_id>/cancel/", array_views.ArrayCancel.as_view(), "api-array-cancel"
    ),
    *route("applications/", application_views.ApplicationList.as_view(), "api-applications"),
    *route(
        "applications/<path:key>/",
        application_views.ApplicationDetail.as_view(),
        "api-application",
    ),
]
