from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('profiling', '0006_awaited_runs'),
    ]

    operations = [
        migrations.AddField(
            model_name='profilingrun',
            name='paused_until',
            field=models.DateTimeField(help_text='of a command, cancelled by a user: no job requests another run before', null=True),
        ),
    ]
