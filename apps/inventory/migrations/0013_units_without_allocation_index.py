from django.db import migrations


class Migration(migrations.Migration):
    """Drop the index of the allocation, and leave room on each page of units.

    An allocation lists its units, so no release needs the index. Without it, units are allocated
    and released without new index entries (heap-only updates).
    """

    dependencies = [("inventory", "0012_rack_switch")]

    operations = [
        migrations.RemoveIndex(model_name="resourceunit", name="unit_by_allocation"),
        migrations.RunSQL(
            "ALTER TABLE inventory_resourceunit SET (fillfactor = 80)",
            "ALTER TABLE inventory_resourceunit RESET (fillfactor)",
        ),
    ]
