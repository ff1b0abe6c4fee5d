from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("workloads", "0005_job_indexes")]
    operations = [
        migrations.AddIndex(
            model_name="batch",
            index=models.Index(fields=["-created_at", "-id"], name="batch_by_age"),
        ),
        migrations.AddIndex(
            model_name="batch",
            index=models.Index(fields=["project", "-created_at", "-id"], name="batch_by_project"),
        ),
        migrations.AddIndex(
            model_name="batch",
            index=models.Index(fields=["mode", "-created_at", "-id"], name="batch_by_mode"),
        ),
    ]
