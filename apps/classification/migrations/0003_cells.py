"""Bring matrices and profiles into cells with provenance."""

from itertools import groupby
from operator import attrgetter

import numpy as np
from django.db import migrations

# as core.cells.CELL was when this was written
CELL = np.dtype(
    [
        ("value", "<f8"),
        ("standard_error", "<f8"),
        ("samples", "<i4"),
        ("source", "u1"),
        ("measured_s", "<f8"),
        ("estimate", "<f8"),
        ("low", "<f8"),
        ("high", "<f8"),
    ]
)


def convert(apps, schema_editor):
    before = apps.get_model("classification", "MatrixRevisionBefore")
    revision = apps.get_model("classification", "Revision")
    after = apps.get_model("classification", "MatrixRevision")
    rows = before.objects.order_by("number", "matrix")
    for number, found in groupby(rows, key=attrgetter("number")):
        matrices = list(found)
        made = revision.objects.create(
            number=number,
            reason="library",
            estimator=matrices[0].estimator,
            is_current=matrices[0].is_current,
        )
        revision.objects.filter(pk=number).update(created_at=matrices[0].created_at)
        for row in matrices:
            after.objects.create(
                revision=made,
                matrix=row.matrix,
                rows=row.rows,
                library_rows=len(row.rows),
                columns=row.columns,
                cells=_cells(row).tobytes(),
            )
    for profile in apps.get_model("classification", "Profile").objects.iterator():
        profile.cells = {name: _with_sources(part) for name, part in profile.cells.items()}
        profile.save(update_fields=["cells"])


def _cells(row):
    """Values without provenance: measured once each, with an error nobody wrote down."""
    values = np.frombuffer(bytes(row.values), dtype=np.float64)
    values = values.reshape(len(row.rows), len(row.columns))
    cells = np.zeros(values.shape, dtype=CELL)
    known = ~np.isnan(values)
    cells["value"] = cells["estimate"] = cells["low"] = cells["high"] = values
    cells["standard_error"] = np.where(known, 0.0, np.nan)
    cells["measured_s"] = np.where(known, 0.0, np.nan)
    cells["samples"] = known
    cells["source"] = known
    return cells


def _with_sources(part):
    measured = part["measured"]
    error = part.pop("standard_error", None)
    if error is not None:
        part["log_error"] = error
    nothing = [None] * len(measured)
    return part | {
        "source": ["measured" if known else "inferred" for known in measured],
        "standard_error": nothing,
        "samples": [1 if known else 0 for known in measured],
        "at_s": nothing,
    }


class Migration(migrations.Migration):
    dependencies = [("classification", "0002_revisions")]
    operations = [migrations.RunPython(convert, migrations.RunPython.noop)]
