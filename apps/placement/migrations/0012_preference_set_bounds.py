"""Bounds of preference sets."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """Add the bounds on objectives that a preference set was derived with."""

    dependencies = [("placement", "0011_front_moments")]

    operations = [
        migrations.AddField(
            model_name="preferenceset",
            name="bounds",
            field=models.JSONField(
                default=dict,
                help_text="by objective: smallest value if higher is better, else largest",
            ),
        )
    ]
