"""Counters of the installation."""

from django.db import models


class TransactionRetry(models.Model):
    """How often transactions were run again after one error of PostgreSQL."""

    sqlstate = models.CharField(max_length=5, primary_key=True)
    retries = models.PositiveBigIntegerField()

    def __str__(self) -> str:
        return f"{self.sqlstate} {self.retries}"
