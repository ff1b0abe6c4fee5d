from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('workloads', '0027_waits_for_better'),
    ]

    operations = [
        migrations.AddField(
            model_name='job',
            name='progress_before',
            field=models.FloatField(db_default=0.0, default=0.0, help_text='share of the work done by earlier launches; above 0 if it was resumed'),
        ),
        migrations.AlterField(
            model_name='job',
            name='run_s',
            field=models.FloatField(help_text='predicted run time of its launch, cluster seconds', null=True),
        ),
    ]
