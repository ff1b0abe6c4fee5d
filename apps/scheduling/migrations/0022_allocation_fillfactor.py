from django.db import migrations


class Migration(migrations.Migration):
    """Leave room on each page of allocations for their release."""

    dependencies = [("scheduling", "0021_age_of_copies")]

    operations = [
        migrations.RunSQL(
            "ALTER TABLE scheduling_allocation SET (fillfactor = 50)",
            "ALTER TABLE scheduling_allocation RESET (fillfactor)",
        )
    ]
