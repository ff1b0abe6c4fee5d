from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("classification", "0003_cells")]
    operations = [migrations.DeleteModel("MatrixRevisionBefore")]
