"""What the testbed measured, for the pages to draw."""

from django.db import models


class SamplingCheck(models.Model):
    """One measurement of sampling quality: the ranks D of a policy's choices against x^R (T3)."""

    size = models.PositiveIntegerField(help_text="R, candidates per decision")
    decisions = models.PositiveIntegerField()
    ks_distance = models.FloatField(help_text="largest distance to x^R at the ranks that exist")
    ks_discrete = models.FloatField(help_text="the same to R draws without replacement")
    xs = models.JSONField(help_text="ranks at which the CDF is kept, ascending, 0-1")
    cdf = models.JSONField(help_text="measured share of decisions with D at most x")
    load = models.FloatField(help_text="mean share of the units held, 0-1")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = (
            # the page: the newest check of each size
            models.Index(fields=["size", "-created_at"], name="sampling_check_newest"),
        )

    def __str__(self) -> str:
        return f"R = {self.size}: {self.ks_distance:.3f}"
