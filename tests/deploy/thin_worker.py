"""A worker without Celery around it: the same steps, as soon as they are due, until it is killed.

Started by tests as `python -m tests.deploy.thin_worker`, so that ARRAKIS_FAILPOINT has a real process tree to kill.
"""

from __future__ import annotations

import logging
import time

import django


def main() -> None:
    django.setup()
    from arrakis.clock import ClockTimestamp
    from deploy import reconcile, releases, sweeps
    from deploy.models import Machine, Replica
    from deploy.states import LIVE, MachineState

    log = logging.getLogger("thin worker")
    while True:
        due = {"due_at__lte": ClockTimestamp()}
        for pk in Replica.objects.filter(state__in=LIVE, **due).values_list("pk", flat=True):
            try:
                reconcile.step(pk)
            except Exception:
                log.exception("replica %s", pk)
        for pk in Machine.objects.filter(state=MachineState.RELEASING, **due).values_list("pk", flat=True):
            try:
                releases.step(pk)
            except Exception:
                log.exception("machine %s", pk)
        sweeps.money()
        time.sleep(0.05)


if __name__ == "__main__":
    main()
