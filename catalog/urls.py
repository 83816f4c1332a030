"""Addresses of what can be rented."""

from __future__ import annotations

from django.urls import path

from catalog import pages

app_name = "catalog"
urlpatterns = [path("gpus/", pages.gpus, name="gpus")]
