"""The Celery application. Messages are hints; PostgreSQL is the truth (DESIGN 5.5)."""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "arrakis.settings")

app = Celery("arrakis")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["catalog", "sizing", "deploy"])

# One beat for the installation. A message that could not be taken in time is worth nothing: the next one says the same.
app.conf.beat_schedule = {
    "due": {"task": "deploy.tasks.tick", "schedule": 1.0, "options": {"expires": 5}},
    "money": {"task": "deploy.tasks.money", "schedule": 5.0, "options": {"expires": 10}},
    "machines": {"task": "deploy.tasks.machines", "schedule": 60.0, "options": {"expires": 60}},
}
