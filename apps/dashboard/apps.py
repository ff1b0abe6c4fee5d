from django.apps import AppConfig


class DashboardConfig(AppConfig):
    """The pages that people see."""

    name = "apps.dashboard"
    label = "dashboard"
    default_auto_field = "django.db.models.BigAutoField"
