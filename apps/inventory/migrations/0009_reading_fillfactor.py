from django.db import migrations


class Migration(migrations.Migration):
    """Leave room on each page of readings for new versions of its rows.

    All servers report every two seconds. On full pages each report moved its row to another page
    and added an entry to the index.
    """

    dependencies = [("inventory", "0008_change_of_topology")]

    operations = [
        migrations.RunSQL(
            "ALTER TABLE inventory_serverreading SET (fillfactor = 45)",
            "ALTER TABLE inventory_serverreading RESET (fillfactor)",
        )
    ]
