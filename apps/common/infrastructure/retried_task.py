"""The base class of all Celery tasks."""

from typing import Any

from celery import Task

from apps.common.infrastructure.transactions import retry_once


class RetriedTask(Task[Any, Any]):
    """A task that runs again once if PostgreSQL has rolled its transaction back."""

    abstract = True
    Request = "apps.common.infrastructure.expiry:ExpiringRequest"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the task."""
        return retry_once(self.run)(*args, **kwargs)
