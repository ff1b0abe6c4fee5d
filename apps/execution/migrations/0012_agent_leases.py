from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("execution", "0011_preemption_decisions"),
    ]

    operations = [
        migrations.AddField(
            model_name="serveragent",
            name="lease_s",
            field=models.FloatField(
                help_text="longest lease that its machine may hold: wall seconds for which its"
                " jobs run without an answer; null before it has registered",
                null=True,
            ),
        ),
    ]
