from django.apps import AppConfig


class TestbedConfig(AppConfig):
    name = "apps.testbed"
    label = "testbed"
    default_auto_field = "django.db.models.BigAutoField"
