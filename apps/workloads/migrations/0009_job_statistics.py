from django.db import migrations

# Values of a job depend on its project: without these statistics, the planner expects a value that
# a project lacks among its newest jobs, and reads all jobs of the project.
FIELDS = ('target_kind', 'state', 'reason_code', 'priority')


class Migration(migrations.Migration):

    dependencies = [
        ('workloads', '0008_flows'),
    ]

    operations = [
        *(
            migrations.RunSQL(
                f'CREATE STATISTICS workloads_job_project_{field} (mcv)'
                f' ON project_id, {field} FROM workloads_job',
                f'DROP STATISTICS workloads_job_project_{field}',
            )
            for field in FIELDS
        ),
        migrations.RunSQL('ANALYZE workloads_job', migrations.RunSQL.noop),
    ]
