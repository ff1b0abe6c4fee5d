from django.apps import AppConfig


class EmulationConfig(AppConfig):
    """Servers and applications that are only computed."""

    name = "apps.emulation"
    label = "emulation"
    default_auto_field = "django.db.models.BigAutoField"
