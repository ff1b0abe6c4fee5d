from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("workloads", "0025_search_terms"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="waitingshape",
            index=models.Index(
                condition=models.Q(("min_units__gt", 1), ("reason_code", "QuotaExceeded")),
                fields=["project"],
                name="shape_of_gang_beyond_quota",
            ),
        ),
    ]
