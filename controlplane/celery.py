"""The Celery application; it imports the `tasks` module of every app."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.dev")

app = Celery("berth", task_cls="apps.common.infrastructure.retried_task:RetriedTask")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
