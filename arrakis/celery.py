"""The Celery application. Messages are hints; PostgreSQL is the truth (DESIGN 5.5)."""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "arrakis.settings")

app = Celery("arrakis")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["catalog", "sizing", "deploy"])
