"""Classification matrices and the profiles drawn from them."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from apps.common.core.ids import uuid7
from apps.workloads.models import Application


class MatrixRevision(models.Model):
    """One immutable state of one utility matrix: the dense rows every fold-in starts from."""

    matrix = models.CharField(max_length=16)
    number = models.PositiveIntegerField()
    estimator = models.CharField(max_length=31)
    rows = ArrayField(models.CharField(max_length=127), help_text="application names")
    columns = ArrayField(models.CharField(max_length=63))
    values = models.BinaryField(help_text="float64, C order, (rows, columns); NaN = not known")
    created_at = models.DateTimeField(auto_now_add=True)
    is_current = models.BooleanField(default=False)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["matrix", "number"], name="revision_number_once"),
            models.UniqueConstraint(
                fields=["matrix"], name="one_current_revision", condition=Q(is_current=True)
            ),
        )

    def __str__(self) -> str:
        return f"{self.matrix} r{self.number}"


class Profile(models.Model):
    """What classification believes about one application; a new belief is a new row."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    application = models.ForeignKey(Application, on_delete=models.CASCADE, related_name="profiles")
    number = models.PositiveIntegerField()
    revision = models.PositiveIntegerField(help_text="revision number of the matrices used")
    estimator = models.CharField(max_length=31)
    is_current = models.BooleanField(default=True)
    cells = models.JSONField(
        help_text="per matrix: columns, value, low, high, measured; see classification.services"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["application", "number"], name="profile_number_once"),
            models.UniqueConstraint(
                fields=["application"],
                name="one_current_profile",
                condition=Q(is_current=True),
            ),
        )

    def __str__(self) -> str:
        return f"{self.application_id} p{self.number}"
