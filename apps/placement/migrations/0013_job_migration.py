"""Plans of one migration for the target of a job."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """Add the cause and the purpose of such plans."""

    dependencies = [("placement", "0012_preference_set_bounds")]

    operations = [
        migrations.AlterField(
            model_name="plan",
            name="cause",
            field=models.CharField(
                max_length=8,
                choices=[
                    ("loop", "scheduled by the loop"),
                    ("request", "requested by a user"),
                    ("reverse", "rolls back another plan"),
                    ("migrate", "migrates one job, requested by a user"),
                ],
            ),
        ),
        migrations.AlterField(
            model_name="plannedmigration",
            name="purpose",
            field=models.CharField(
                max_length=8,
                choices=[
                    ("empty", "empty a server so that it can be switched off"),
                    ("protect", "keep intense containers apart"),
                    ("gather", "bring the containers of a job together"),
                    ("improve", "move one container to a better server"),
                    ("reverse", "roll back an earlier migration"),
                    ("target", "bring a job back to its target"),
                ],
            ),
        ),
    ]
