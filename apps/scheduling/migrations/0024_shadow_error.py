from django.db import migrations, models


class Migration(migrations.Migration):
    """Store the error of a policy that ended its shadow."""

    dependencies = [("scheduling", "0023_allocation_fillfactor")]

    operations = [
        migrations.AddField(
            "shadow",
            "error",
            models.CharField(
                blank=True,
                db_default="",
                default="",
                help_text="of its policy",
                max_length=500,
            ),
        ),
        migrations.AlterField(
            "shadow",
            "end",
            models.CharField(
                blank=True,
                choices=[
                    ("stopped", "an operator stopped it"),
                    ("time", "its end time was reached"),
                    ("full", "it has compared the largest number of decisions"),
                    ("failed", "its policy failed"),
                    ("policy", "its policy is not installed any more, or has other parameters"),
                ],
                max_length=8,
            ),
        ),
    ]
