"""URLs of the reports, migrations and tasks of jobs."""

from apps.common.api.routes import route
from apps.execution.api import views

urlpatterns = [
    *route("jobs/<uuid:job_id>/metrics/", views.JobMetrics.as_view(), "api-job-metrics"),
    *route("jobs/<uuid:job_id>/diagnosis/", views.JobDiagnosis.as_view(), "api-job-diagnosis"),
    *route("jobs/<uuid:job_id>/migrations/", views.JobMigrations.as_view(), "api-job-migrations"),
    *route("jobs/<uuid:job_id>/tasks/", views.JobTasks.as_view(), "api-job-tasks"),
]
