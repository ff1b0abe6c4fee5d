from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('testbed', '0004_measured_pairs'),
    ]

    operations = [
        migrations.AddField(
            model_name='labcomparison',
            name='runs_discarded',
            field=models.PositiveIntegerField(db_default=0, default=0, help_text='of other versions, when it was continued'),
        ),
        migrations.AlterField(
            model_name='labcomparison',
            name='version',
            field=models.CharField(help_text='of Berth, which made all its runs', max_length=63),
        ),
        migrations.AddField(
            model_name='labrun',
            name='version',
            field=models.CharField(db_default='', default='', help_text='of Berth; "" if not stored', max_length=63),
        ),
    ]
