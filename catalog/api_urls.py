"""Addresses of the catalogue in the API; with and without a slash at the end."""

from __future__ import annotations

from django.urls import re_path

from catalog.api import GpusView, OffersView

urlpatterns = [
    re_path(r"^gpus/?$", GpusView.as_view(), name="api-gpus"),
    re_path(r"^offers/?$", OffersView.as_view(), name="api-offers"),
]
