from django.apps import AppConfig


class WorkloadsConfig(AppConfig):
    """Applications, jobs and their life."""

    name = "apps.workloads"
    label = "workloads"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Rename the applications of a project when it is renamed or deleted."""
        from apps.accounts.services import (  # noqa: PLC0415
            rename_with_projects,
            retire_with_projects,
        )
        from apps.workloads.services import follow_deletion, follow_rename  # noqa: PLC0415

        rename_with_projects(follow_rename)
        retire_with_projects(follow_deletion)
