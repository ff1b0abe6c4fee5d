from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [('workloads', '0016_job_fillfactor')]

    operations = [
        migrations.AddField(
            model_name='job',
            name='suspended_for_s',
            field=models.FloatField(db_default=0.0, default=0.0, help_text='cluster seconds that its launch was suspended before'),
        ),
        migrations.AddField(
            model_name='job',
            name='suspended_s',
            field=models.FloatField(help_text='cluster seconds; when its processes were stopped; null: they run', null=True),
        ),
        migrations.AddField(
            model_name='job',
            name='suspension',
            field=models.CharField(blank=True, db_default='', default='', help_text='of a running job; empty: none', max_length=9),
        ),
        migrations.AddConstraint(
            model_name='job',
            constraint=models.CheckConstraint(condition=models.Q(('suspension__in', ['', 'requested', 'suspended', 'resuming']), models.Q(models.Q(('suspended_s__isnull', True), ('suspension', '')), ('state', 'running'), _connector='OR')), name='job_suspended_runs'),
        ),
    ]
