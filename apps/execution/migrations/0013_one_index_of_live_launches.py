from django.db import migrations


class Migration(migrations.Migration):
    """Drop the index of requested launches: that of live ones begins with them."""

    dependencies = [("execution", "0012_agent_leases")]

    operations = [migrations.RemoveIndex(model_name="launch", name="launch_requested")]
