from django.db import migrations


class Migration(migrations.Migration):
    """Leave room on each page of allocations for their release."""

    dependencies = [("scheduling", "0022_reservation_for_preemption")]

    operations = [
        migrations.RunSQL(
            "ALTER TABLE scheduling_allocation SET (fillfactor = 50)",
            "ALTER TABLE scheduling_allocation RESET (fillfactor)",
        )
    ]
