"""The column of candidates: packed in the database, rows of JSON in Python."""

from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

from apps.scheduling.core.records import candidate_layout

Rows = list[dict[str, Any]]
if TYPE_CHECKING:
    _Field = models.Field[Rows, Rows]
else:
    _Field = models.Field  # no generic at run time


class CandidatesField(_Field):
    """Examined units of a decision as `core.candidate_layout`; reading the column unpacks it."""

    empty_values = (None, b"")

    def get_internal_type(self) -> str:
        """Return the field whose type the column has."""
        return "BinaryField"

    def from_db_value(
        self, value: Any, expression: object, connection: BaseDatabaseWrapper
    ) -> Rows | None:
        """Unpack a value of the column."""
        return None if value is None else candidate_layout.unpack(bytes(value))

    def get_db_prep_value(
        self, value: Any, connection: BaseDatabaseWrapper, prepared: bool = False
    ) -> Any:
        """Pack rows for the column."""
        value = super().get_db_prep_value(value, connection, prepared)
        return None if value is None else candidate_layout.pack(value)
