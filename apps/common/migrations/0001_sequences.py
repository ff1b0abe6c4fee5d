from django.db import migrations


class Migration(migrations.Migration):
    initial = True
    dependencies = []
    operations = [
        migrations.RunSQL(
            "CREATE SEQUENCE common_changes_seq AS bigint CACHE 1",
            "DROP SEQUENCE common_changes_seq",
        ),
        migrations.RunSQL(
            "CREATE SEQUENCE common_allocations_seq AS bigint CACHE 1",
            "DROP SEQUENCE common_allocations_seq",
        ),
    ]
