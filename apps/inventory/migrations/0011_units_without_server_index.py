import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """Drop the index of the server: the unique one of server and core begins with it."""

    dependencies = [
        ("inventory", "0010_l3_groups"),
    ]

    operations = [
        migrations.AlterField(
            model_name="resourceunit",
            name="server",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="units",
                to="inventory.server",
            ),
        ),
    ]
