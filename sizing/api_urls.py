"""Addresses of models in the API; with and without a slash at the end."""

from __future__ import annotations

from django.urls import re_path

from sizing.api import ModelsView, SizingView

urlpatterns = [
    re_path(r"^models/?$", ModelsView.as_view(), name="api-models"),
    re_path(
        r"^models/(?P<owner>[A-Za-z0-9._-]{1,96})/(?P<name>[A-Za-z0-9._-]{1,96})/sizing/?$",
        SizingView.as_view(),
        name="api-sizing",
    ),
]
