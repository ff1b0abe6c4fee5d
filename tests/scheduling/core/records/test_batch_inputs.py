"""Inputs of a batch in their stored form."""

import json
import zlib

from apps.scheduling.core.records.batch_inputs import BatchInputs, StoredBatch
from apps.scheduling.core.reservations.backfill import Binding

BINDINGS = (Binding((0,), ()), Binding((1, 2), (7, 8), ((3, 2e9, 1e8, 5e11), (4, 1e9, 0.5, 0.0))))


def packed(*bindings: Binding) -> bytes:
    return BatchInputs(5, 2, 1, 9, "expected", {}, [], [], bindings).packed()


def test_bindings_are_read_as_they_were_stored() -> None:
    assert StoredBatch.read(packed(*BINDINGS)).bindings == BINDINGS
    assert StoredBatch.read(packed()).bindings == ()


def test_bindings_of_older_releases_keep_no_room() -> None:
    body = json.loads(zlib.decompress(packed(*BINDINGS)))
    body["bindings"] = [row[:2] for row in body["bindings"]]
    older = StoredBatch.read(zlib.compress(json.dumps(body).encode()))
    assert older.bindings == tuple(each._replace(room=()) for each in BINDINGS)
