from django.apps import AppConfig


class SchedulingConfig(AppConfig):
    """Policies, agents, decisions and allocations."""

    name = "apps.scheduling"
    label = "scheduling"
    default_auto_field = "django.db.models.BigAutoField"
