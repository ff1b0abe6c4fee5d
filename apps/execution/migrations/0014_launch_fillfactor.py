from django.db import migrations


class Migration(migrations.Migration):
    """Leave room on each page of launches for new versions of its rows.

    The claim of a backend then needs no new index entries (a heap-only update), and the start and
    the end of a launch stay on its page.
    """

    dependencies = [("execution", "0013_one_index_of_live_launches")]

    operations = [
        migrations.RunSQL(
            "ALTER TABLE execution_launch SET (fillfactor = 40)",
            "ALTER TABLE execution_launch RESET (fillfactor)",
        )
    ]
