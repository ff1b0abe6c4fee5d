"""Pack the candidates of stored decisions, in batches that are committed one by one.

Both directions can be repeated after an interruption.
"""

import json
from uuid import UUID

from django.db import migrations

from apps.scheduling.core.records import candidate_layout

BATCH = 1000
FIRST = UUID(int=0)
TO_PACK = """
SELECT id, candidates_json::text FROM scheduling_decision
WHERE id > %s AND candidates_json <> '[]' ORDER BY id LIMIT %s
"""
PACK = "UPDATE scheduling_decision SET candidates = %s, candidates_json = NULL WHERE id = %s"
TO_UNPACK = """
SELECT id, candidates FROM scheduling_decision
WHERE id > %s AND candidates <> '' ORDER BY id LIMIT %s
"""
UNPACK = "UPDATE scheduling_decision SET candidates_json = %s, candidates = '' WHERE id = %s"


def pack(apps, schema_editor):
    move(
        schema_editor.connection, TO_PACK, PACK,
        lambda text: candidate_layout.pack(json.loads(text)),
    )


def unpack(apps, schema_editor):
    move(
        schema_editor.connection, TO_UNPACK, UNPACK,
        lambda packed: json.dumps(candidate_layout.unpack(bytes(packed))),
    )


def move(connection, read, write, convert):
    """Move the column of all decisions, by ascending id."""
    last = FIRST
    with connection.cursor() as cursor:
        while True:
            cursor.execute(read, [last, BATCH])
            rows = cursor.fetchall()
            if not rows:
                return
            last = rows[-1][0]
            cursor.executemany(write, [(convert(value), key) for key, value in rows])


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ("scheduling", "0017_packed_candidates"),
    ]

    operations = [
        migrations.RunPython(pack, unpack),
    ]
