from django.db import migrations

FILL = """
UPDATE operations_event e SET user_id = o.created_by_id
FROM operations_operation o
WHERE e.topic = 'operations' AND e.subject = o.id::text AND o.created_by_id IS NOT NULL
"""


class Migration(migrations.Migration):
    """Store who may see the events of the operations that exist already."""

    dependencies = [
        ("operations", "0007_users_of_operation_events"),
    ]

    operations = [migrations.RunSQL(FILL, migrations.RunSQL.noop)]
