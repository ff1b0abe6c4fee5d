from django.apps import AppConfig


class WorkloadsConfig(AppConfig):
    """Applications, jobs and their life."""

    name = "apps.workloads"
    label = "workloads"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Rename the applications of a project with the project."""
        from apps.accounts.services import rename_with_projects  # noqa: PLC0415
        from apps.workloads.services import follow_rename  # noqa: PLC0415

        rename_with_projects(follow_rename)
