"""The Celery application; it imports the `tasks` module of every app."""

import os
from typing import Any

from celery import Celery
from celery.signals import beat_init, before_task_publish, task_prerun, worker_init
from django.db import close_old_connections

from apps.common.infrastructure.collector import spare_loaded_objects
from apps.common.infrastructure.expiry import stamp

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.dev")

app = Celery("berth", task_cls="apps.common.infrastructure.retried_task:RetriedTask")
app.config_from_object("django.conf:settings", namespace="CELERY")
# Celery would close the connection after each task, and each of some ten tasks a second would open
# another: 10 ms of two processes. They are kept as between requests (`CONN_MAX_AGE`).
app.conf["CELERY_DB_REUSE_MAX"] = 1_000_000  # tasks
app.autodiscover_tasks()
before_task_publish.connect(stamp)


@task_prerun.connect
def close_unusable_connections(sender: Any, **_: Any) -> None:
    """Close connections that are old, and let the next statement check the others."""
    if not sender.request.is_eager:
        close_old_connections()


@beat_init.connect
@worker_init.connect
def spare_what_is_loaded(**_: Any) -> None:
    """Leave the tasks and their modules out of collections; processes of a pool inherit this."""
    spare_loaded_objects()
