"""Add the column of packed candidates; the next migration fills it."""

from django.db import migrations, models

import apps.scheduling.infrastructure.candidates


class Migration(migrations.Migration):

    dependencies = [
        ("scheduling", "0016_l3_groups"),
    ]

    operations = [
        migrations.RenameField("decision", "candidates", "candidates_json"),
        # a later release writes no JSON
        migrations.AlterField(
            model_name="decision",
            name="candidates_json",
            field=models.JSONField(null=True),
        ),
        migrations.AddField(
            model_name="decision",
            name="candidates",
            field=apps.scheduling.infrastructure.candidates.CandidatesField(default=list, help_text="examined units, best first"),
        ),
    ]
