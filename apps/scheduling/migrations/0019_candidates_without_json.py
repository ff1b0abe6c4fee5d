"""Drop the JSON of candidates, which the migration before has packed."""

from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ("scheduling", "0018_pack_candidates"),
    ]

    operations = [
        migrations.RemoveField("decision", "candidates_json"),
    ]
