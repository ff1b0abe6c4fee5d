from django.apps import AppConfig


class ExecutionConfig(AppConfig):
    name = "apps.execution"
    label = "execution"
    default_auto_field = "django.db.models.BigAutoField"
