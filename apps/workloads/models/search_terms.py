"""The words, labels and requests that jobs are searched by."""

from django.contrib.postgres.indexes import GinIndex, HashIndex
from django.db import models

from apps.workloads.infrastructure.name_search import Words
from apps.workloads.models.jobs import Job


class SearchTerms(models.Model):
    """The name, labels and request of a job: what searches use and changes of its state do not.

    A change of a job's state adds an entry to every index of its table. With the three indexes of
    this table, such a change would take half as long again. Triggers copy the columns of new and
    changed jobs.
    """

    # no constraint: a trigger inserts the row, and it would be checked for each new job
    job = models.OneToOneField(
        Job,
        on_delete=models.CASCADE,
        primary_key=True,
        related_name="terms",
        db_constraint=False,
    )
    name = models.CharField(max_length=127)
    labels = models.JSONField()
    correlation_id = models.CharField(max_length=64)

    class Meta:
        indexes = (
            HashIndex(fields=["correlation_id"], name="terms_by_request"),
            GinIndex(fields=["labels"], name="terms_by_label", opclasses=["jsonb_path_ops"]),
            # beginnings of the words of the name
            GinIndex(Words("name"), name="terms_by_word"),
        )

    def __str__(self) -> str:
        return self.name
