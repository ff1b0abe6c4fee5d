from django.apps import AppConfig


class WorkloadsConfig(AppConfig):
    """Applications, jobs and their life."""

    name = "apps.workloads"
    label = "workloads"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Rename applications with their projects, and follow the quotas of these."""
        from apps.accounts.services import (  # noqa: PLC0415
            follow_quotas,
            rename_with_projects,
            retire_with_projects,
        )
        from apps.workloads.core.reasons import Reason  # noqa: PLC0415
        from apps.workloads.services import (  # noqa: PLC0415
            evaluate_soon,
            follow_deletion,
            follow_rename,
        )

        rename_with_projects(follow_rename)
        retire_with_projects(follow_deletion)
        follow_quotas(lambda: evaluate_soon(Reason.QUOTA_EXCEEDED))
