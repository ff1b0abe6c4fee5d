"""What the testbed measured, for the pages to draw."""

from django.conf import settings
from django.db import models

from apps.common.core.ids import uuid7
from apps.operations.models import Operation
from apps.workloads.models import Job


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


class LabScenario(models.Model):
    """A cluster and jobs on which policies are compared; never changed, so that runs repeat."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=127)
    source = models.JSONField(help_text="the request: where cluster and jobs come from")
    cluster = models.JSONField(help_text="document of the cluster, as `replay.clusters` reads it")
    world = models.CharField(max_length=31, help_text="of the applications' true behaviour")
    jobs = models.BinaryField(help_text="the jobs as JSON Lines, compressed with gzip")
    job_ids = models.BinaryField(null=True, help_text="of a history: 16 bytes for each job")
    servers = models.PositiveIntegerField()
    jobs_total = models.PositiveIntegerField()
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = (
            # lists, newest first
            models.Index(fields=["-created_at", "-id"], name="lab_scenario_by_age"),
        )

    def __str__(self) -> str:
        return self.name


class LabComparison(models.Model):
    """Settings that run on a scenario with the same seeds; `result` appears with the last run."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=127)
    scenario = models.ForeignKey(LabScenario, on_delete=models.PROTECT, related_name="comparisons")
    grid = models.JSONField(help_text="names and options of the settings")
    seeds = models.JSONField()
    baseline = models.CharField(max_length=127)
    bound = models.CharField(max_length=127, blank=True)  # empty: none
    halving = models.JSONField(null=True, help_text="first_seeds of a sweep; null = none")
    digest = models.CharField(max_length=64, help_text="SHA-256 of all that determines the runs")
    version = models.CharField(max_length=63, help_text="of Berth, which made all its runs")
    runs_discarded = models.PositiveIntegerField(
        default=0, db_default=0, help_text="of other versions, when it was continued"
    )
    # not "+": the deletion of old operations asks every relation whether it still needs them
    operation = models.OneToOneField(
        Operation, on_delete=models.PROTECT, related_name="lab_comparison"
    )
    result = models.JSONField(null=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = (
            # lists, newest first
            models.Index(fields=["-created_at", "-id"], name="lab_comparison_by_age"),
        )

    def __str__(self) -> str:
        return self.name


class LabRun(models.Model):
    """A completed run of a comparison: one setting with one seed."""

    comparison = models.ForeignKey(LabComparison, on_delete=models.CASCADE, related_name="runs")
    setting = models.CharField(max_length=127)
    seed = models.PositiveIntegerField()
    record = models.JSONField(help_text="what `core.lab_runs.run_setting` returned")
    performance = models.BinaryField(null=True, help_text="float32 for each job, 0 = unfinished")
    wall_seconds = models.FloatField()
    version = models.CharField(
        max_length=63, default="", db_default="", help_text='of Berth; "" if not stored'
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["comparison", "setting", "seed"], name="lab_run_once"),
        )

    def __str__(self) -> str:
        return f"{self.setting}, seed {self.seed}"


class MeasuredPair(models.Model):
    """Two applications measured alone and next to each other, against what was predicted."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    first = models.CharField(max_length=127, help_text="name of an application")
    second = models.CharField(max_length=127, help_text="name of an application")
    is_emulated = models.BooleanField()
    platform = models.CharField(max_length=63)
    server_units = models.PositiveIntegerField(help_text="of the server, which it holds alone")
    request = models.JSONField(help_text="sides (command, units, ...), rounds, window_s, ...")
    predictions = models.JSONField(
        help_text="of each side: value, low, high, ...; made before the measurement"
    )
    job = models.OneToOneField(
        Job, null=True, on_delete=models.SET_NULL, related_name="measured_pair",
        help_text="that measures; null: emulated, or deleted",
    )  # fmt: skip
    # not "+": the deletion of old operations asks every relation whether it still needs them
    operation = models.OneToOneField(
        Operation, on_delete=models.PROTECT, related_name="measured_pair"
    )
    result = models.JSONField(null=True, help_text="`core.pairs.rounds.summary`")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = (
            # lists, newest first
            models.Index(fields=["-created_at", "-id"], name="measured_pair_by_age"),
        )

    def __str__(self) -> str:
        return f"{self.first} and {self.second}"
