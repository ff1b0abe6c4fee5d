from django.apps import AppConfig


class SchedulingConfig(AppConfig):
    """Policies, agents, decisions and allocations."""

    name = "apps.scheduling"
    label = "scheduling"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Add the policies of other packages."""
        from apps.scheduling.infrastructure.plugins import load_policies  # noqa: PLC0415

        load_policies()
