"""Rename models and texts; the tables and their columns stay as they are."""

from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('placement', '0006_plan_activation'),
    ]

    operations = [
        # with the table named explicitly, renaming the model leaves it alone
        migrations.AlterModelTable(name='move', table='placement_move'),
        migrations.AlterModelTable(name='loop', table='placement_loop'),
        migrations.AlterModelTable(name='threshold', table='placement_threshold'),
        migrations.RenameModel(old_name='Move', new_name='PlannedMigration'),
        migrations.RenameModel(old_name='Loop', new_name='RebalancingLoop'),
        migrations.RenameModel(old_name='Threshold', new_name='MetricThreshold'),
    ]
