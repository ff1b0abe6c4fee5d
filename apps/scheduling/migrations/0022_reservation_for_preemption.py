from django.db import migrations, models


class Migration(migrations.Migration):
    """Mark reservations whose units are those of jobs that are being stopped."""

    dependencies = [("scheduling", "0021_age_of_copies")]

    operations = [
        migrations.AddField(
            "reservation",
            "for_preemption",
            models.BooleanField(
                db_default=False,
                default=False,
                help_text="not late while victims hold some of its units",
            ),
        ),
    ]
