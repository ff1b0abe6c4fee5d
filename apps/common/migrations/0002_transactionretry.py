from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("common", "0001_sequences")]

    operations = [
        migrations.CreateModel(
            name="TransactionRetry",
            fields=[
                (
                    "sqlstate",
                    models.CharField(max_length=5, primary_key=True, serialize=False),
                ),
                ("retries", models.PositiveBigIntegerField()),
            ],
        ),
    ]
