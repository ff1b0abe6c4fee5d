"""URLs of the reports, migrations and tasks of jobs."""

from apps.common.api.routes import route
from apps.execution.api import (
    agent_views,
    output_views,
    preemption_views,
    proposal_views,
    suspension_views,
    views,
)

urlpatterns = [
    *route("jobs/<uuid:job_id>/metrics/", views.JobMetrics.as_view(), "api-job-metrics"),
    *route("jobs/<uuid:job_id>/diagnosis/", views.JobDiagnosis.as_view(), "api-job-diagnosis"),
    *route("jobs/<uuid:job_id>/migrations/", views.JobMigrations.as_view(), "api-job-migrations"),
    *route("jobs/<uuid:job_id>/tasks/", views.JobTasks.as_view(), "api-job-tasks"),
    *route("jobs/<uuid:job_id>/output/", output_views.JobOutput.as_view(), "api-job-output"),
    *route(
        "jobs/<uuid:job_id>/preemption/",
        preemption_views.JobPreemption.as_view(),
        "api-job-preemption",
    ),
    *route(
        "jobs/<uuid:job_id>/preemption/apply/",
        preemption_views.JobPreemptionApply.as_view(),
        "api-job-preemption-apply",
    ),
    *route("preemptions/", proposal_views.ProposalList.as_view(), "api-preemptions"),
    *route(
        "preemptions/<int:proposal_id>/",
        proposal_views.ProposalDetail.as_view(),
        "api-preemption",
    ),
    *route(
        "preemptions/<int:proposal_id>/apply/",
        proposal_views.ProposalApply.as_view(),
        "api-preemption-apply",
    ),
    *route(
        "preemptions/<int:proposal_id>/dismiss/",
        proposal_views.ProposalDismiss.as_view(),
        "api-preemption-dismiss",
    ),
    *route(
        "jobs/<uuid:job_id>/suspend/", suspension_views.JobSuspend.as_view(), "api-job-suspend"
    ),
    *route("jobs/<uuid:job_id>/resume/", suspension_views.JobResume.as_view(), "api-job-resume"),
    *route("agents/", agent_views.AgentList.as_view(), "api-agents"),
    *route(
        "agents/enrolment-tokens/", agent_views.EnrolmentTokens.as_view(), "api-agent-enrolments"
    ),
    *route("agents/enrol/", agent_views.Enrol.as_view(), "api-agent-enrol"),
    *route("agents/register/", agent_views.RegisterAgent.as_view(), "api-agent-register"),
    *route("agents/sync/", agent_views.Sync.as_view(), "api-agent-sync"),
    *route("agents/output/", agent_views.Output.as_view(), "api-agent-output"),
    *route("agents/files/", agent_views.Files.as_view(), "api-agent-files"),
    *route("agents/credential/", agent_views.RotateCredential.as_view(), "api-agent-credential"),
    *route("agents/<str:name>/", agent_views.AgentDetail.as_view(), "api-agent"),
]
