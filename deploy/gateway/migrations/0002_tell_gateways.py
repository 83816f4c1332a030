"""Triggers that tell the gateways what changed (channel `gateway`), whoever wrote the row.

`key <sha256>`: a key, or what it opens. `workspace <id>`: one of its deployments, or the machine that serves it.
A notification is sent when its transaction commits; the gateways read again, so one that comes twice does no harm.
"""

from django.db import migrations

TELL = r"""
CREATE FUNCTION gateway_tell_key() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP <> 'INSERT' THEN PERFORM pg_notify('gateway', 'key ' || OLD.sha256); END IF;
  IF TG_OP <> 'DELETE' THEN PERFORM pg_notify('gateway', 'key ' || NEW.sha256); END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER gateway_tell AFTER INSERT OR UPDATE OR DELETE ON gateway_endpointkey
  FOR EACH ROW EXECUTE FUNCTION gateway_tell_key();

CREATE FUNCTION gateway_tell_grant() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('gateway', 'key ' || sha256) FROM gateway_endpointkey
    WHERE id IN (CASE WHEN TG_OP <> 'INSERT' THEN OLD.key_id END, CASE WHEN TG_OP <> 'DELETE' THEN NEW.key_id END);
  RETURN NULL;
END $$;
CREATE TRIGGER gateway_tell AFTER INSERT OR UPDATE OR DELETE ON gateway_keygrant
  FOR EACH ROW EXECUTE FUNCTION gateway_tell_grant();

CREATE FUNCTION gateway_tell_workspace() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP <> 'INSERT' THEN PERFORM pg_notify('gateway', 'workspace ' || OLD.workspace_id); END IF;
  IF TG_OP <> 'DELETE' THEN PERFORM pg_notify('gateway', 'workspace ' || NEW.workspace_id); END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER gateway_tell AFTER INSERT OR DELETE ON deploy_deployment
  FOR EACH ROW EXECUTE FUNCTION gateway_tell_workspace();
CREATE TRIGGER gateway_tell_change AFTER UPDATE ON deploy_deployment FOR EACH ROW
  WHEN ((OLD.workspace_id, OLD.state, OLD.desired, OLD.reason_code, OLD.served_name, OLD.repo_id)
        IS DISTINCT FROM (NEW.workspace_id, NEW.state, NEW.desired, NEW.reason_code, NEW.served_name, NEW.repo_id))
  EXECUTE FUNCTION gateway_tell_workspace();
CREATE TRIGGER gateway_tell AFTER UPDATE ON deploy_machine FOR EACH ROW
  WHEN ((OLD.workspace_id, OLD.state) IS DISTINCT FROM (NEW.workspace_id, NEW.state))
  EXECUTE FUNCTION gateway_tell_workspace();

CREATE FUNCTION gateway_tell_attempt() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('gateway', 'workspace ' || d.workspace_id)
    FROM deploy_replica r JOIN deploy_deployment d ON d.id = r.deployment_id WHERE r.id = NEW.replica_id;
  RETURN NULL;
END $$;
CREATE TRIGGER gateway_tell AFTER INSERT OR UPDATE ON deploy_attempt
  FOR EACH ROW EXECUTE FUNCTION gateway_tell_attempt();

CREATE FUNCTION gateway_tell_frozen() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('gateway', 'workspace ' || NEW.id);
  RETURN NULL;
END $$;
CREATE TRIGGER gateway_tell AFTER UPDATE ON accounts_workspace FOR EACH ROW
  WHEN (OLD.frozen_reason IS DISTINCT FROM NEW.frozen_reason) EXECUTE FUNCTION gateway_tell_frozen();
"""

FORGET = """
DROP TRIGGER gateway_tell ON accounts_workspace;
DROP TRIGGER gateway_tell ON deploy_attempt;
DROP TRIGGER gateway_tell ON deploy_machine;
DROP TRIGGER gateway_tell_change ON deploy_deployment;
DROP TRIGGER gateway_tell ON deploy_deployment;
DROP TRIGGER gateway_tell ON gateway_keygrant;
DROP TRIGGER gateway_tell ON gateway_endpointkey;
DROP FUNCTION gateway_tell_frozen();
DROP FUNCTION gateway_tell_attempt();
DROP FUNCTION gateway_tell_workspace();
DROP FUNCTION gateway_tell_grant();
DROP FUNCTION gateway_tell_key();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("gateway", "0001_initial"),
        ("accounts", "0001_initial"),
        ("deploy", "0001_initial"),
    ]

    operations = [migrations.RunSQL(TELL, FORGET)]
