from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("inventory", "0013_units_without_allocation_index"),
    ]

    operations = [
        migrations.AlterField(
            model_name="change",
            name="kind",
            field=models.CharField(
                choices=[
                    ("claim", "Claim"),
                    ("release", "Release"),
                    ("open", "server takes new work"),
                    ("close", "server takes no new work"),
                    ("topology", "servers were added or removed: reload the cluster"),
                    ("pruned", "this entry and earlier ones were deleted: reload the cluster"),
                ],
                max_length=10,
            ),
        ),
    ]
