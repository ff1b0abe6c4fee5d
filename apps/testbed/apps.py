from django.apps import AppConfig


class TestbedConfig(AppConfig):
    """Demo clusters and checks of the whole."""

    name = "apps.testbed"
    label = "testbed"
    default_auto_field = "django.db.models.BigAutoField"
