from django.apps import AppConfig


class ClassificationConfig(AppConfig):
    name = "apps.classification"
    label = "classification"
    default_auto_field = "django.db.models.BigAutoField"
