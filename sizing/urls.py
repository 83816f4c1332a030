"""Addresses of sizing."""

from __future__ import annotations

from django.urls import URLPattern

app_name = "sizing"
urlpatterns: list[URLPattern] = []
