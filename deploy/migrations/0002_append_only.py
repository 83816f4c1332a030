from django.db import migrations

from arrakis.append_only import append_only


class Migration(migrations.Migration):
    dependencies = [("deploy", "0001_initial")]

    operations = [append_only("deploy_event")]
