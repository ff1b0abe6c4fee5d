from django.db import migrations, models


class Migration(migrations.Migration):
    """Find the live allocations of a job in one index."""

    dependencies = [("scheduling", "0014_shadows")]

    operations = [
        migrations.AddIndex(
            model_name="allocation",
            index=models.Index(fields=["job", "released_seq"], name="allocation_of_job"),
        ),
        migrations.RemoveIndex(model_name="allocation", name="allocation_by_job"),
    ]
