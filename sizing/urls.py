"""Addresses of what a model needs; a GPU's page is here too, since it says what fits on it."""

from __future__ import annotations

from django.urls import path

from sizing import guide, pages

app_name = "sizing"
urlpatterns = [
    path("", pages.home, name="home"),
    path("models/", pages.models, name="models"),
    path("models/check/", pages.check, name="check"),
    path("models/<slug:slug>/", pages.model, name="model"),
    path("gpus/<slug:key>/", pages.gpu, name="gpu"),
    path("guides/", guide.guides, name="guides"),
    path("guides/gpu-memory/", guide.gpu_memory, name="guide-gpu-memory"),
    path("guides/deploy/", guide.deploy, name="guide-deploy"),
]
