from django.db import migrations, models


class Migration(migrations.Migration):
    """The place of a waiting shape in the queue is no longer its last evaluation."""

    dependencies = [
        ("workloads", "0028_progress_before"),
    ]

    operations = [
        migrations.RemoveIndex(model_name="waitingshape", name="shape_by_project"),
        migrations.RenameField(
            model_name="waitingshape", old_name="evaluated_at", new_name="queued_at"
        ),
        migrations.AlterField(
            model_name="waitingshape",
            name="queued_at",
            field=models.DateTimeField(
                help_text="its place among shapes of equal priority: when its job was submitted,"
                " or when it last let others go first"
            ),
        ),
        migrations.AddIndex(
            model_name="waitingshape",
            index=models.Index(
                fields=["project", "-priority", "queued_at"], name="shape_by_project"
            ),
        ),
    ]
