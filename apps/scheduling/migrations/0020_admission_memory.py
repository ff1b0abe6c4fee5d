"""Store the history of admission controls, from which dry runs continue."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("scheduling", "0019_candidates_without_json"),
    ]

    operations = [
        migrations.AddField(
            "admissionstate",
            "memory",
            models.BinaryField(
                default=b"",
                db_default=b"",
                help_text="history of the control, from which dry runs continue: JSON, by zlib",
            ),
        ),
    ]
