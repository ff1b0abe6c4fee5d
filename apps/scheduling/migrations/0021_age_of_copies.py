from django.db import migrations, models


class Migration(migrations.Migration):
    """Store how old the copy of the agent was when a decision was committed."""

    dependencies = [("scheduling", "0020_admission_memory")]

    operations = [
        migrations.AddField(
            "decision",
            "copy_age_s",
            models.FloatField(
                null=True,
                help_text="wall seconds from the agent's last read of the log to the commit",
            ),
        ),
        migrations.AddField(
            "decision",
            "changes_behind",
            models.BigIntegerField(
                null=True,
                help_text="changes of the log that the agent's copy lacked at the commit",
            ),
        ),
    ]
