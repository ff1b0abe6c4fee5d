# The key depends on the policy, R and guarantee. PostgreSQL 15 cannot change the expression of a
# generated column, so the column is replaced.

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('workloads', '0009_job_statistics'),
    ]

    operations = [
        migrations.RemoveField(model_name='job', name='shape_key'),
        migrations.AddField(
            model_name='job',
            name='policy',
            field=models.CharField(blank=True, db_default='', default='', help_text='named by the job; empty: the default', max_length=63),
        ),
        migrations.AddField(
            model_name='job',
            name='sample_size',
            field=models.PositiveIntegerField(help_text='R, named by the job', null=True),
        ),
        migrations.AddField(
            model_name='job',
            name='guarantee',
            field=models.JSONField(help_text='rank threshold x and probability p', null=True),
        ),
        migrations.AddField(
            model_name='job',
            name='shape_key',
            field=models.GeneratedField(db_persist=True, expression=models.Func(output_field=models.UUIDField(), template="md5( project_id::text || ' ' || application_id::text || ' ' || priority::text || ' ' || gang::text || ' ' || target::text || ' ' || constraints::text || ' ' || input_bytes::text || ' ' || tasks_total::text || ' ' || coalesce(units_requested::text, '-') || ' ' || coalesce(duration_s::text, '-') || ' ' || unit_memory_bytes::text || ' ' || unit_network_bps::text || ' ' || unit_storage_bytes::text || ' ' || policy || ' ' || coalesce(sample_size::text, '-') || ' ' || coalesce(guarantee::text, '-') || ' ' || CASE WHEN target_kind = 'completion_time' AND units_requested IS NULL THEN floor(submitted_s / greatest( 0.05 * (target->>'seconds')::float8, 10.0))::text ELSE '-' END )::uuid"), output_field=models.UUIDField()),
        ),
    ]
