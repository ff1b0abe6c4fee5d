from django.db import migrations


class Migration(migrations.Migration):
    """Leave room on each page of jobs for new versions of its rows.

    The claim of an agent then needs no new index entries (a heap-only update), and later versions
    replace the dead ones on the page.
    """

    dependencies = [('workloads', '0015_slurm')]

    operations = [
        migrations.RunSQL(
            'ALTER TABLE workloads_job SET (fillfactor = 45)',
            'ALTER TABLE workloads_job RESET (fillfactor)',
        )
    ]
