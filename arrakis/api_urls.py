"""`/api/`: the control API of DESIGN section 6, its schema and its pages."""

from __future__ import annotations

from django.urls import include, path, re_path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerView
from rest_framework.permissions import AllowAny

from arrakis.api import Nothing

urlpatterns = [
    path("schema/", SpectacularAPIView.as_view(permission_classes=[AllowAny]), name="api-schema"),
    path(
        "docs/", SpectacularSwaggerView.as_view(url_name="api-schema", permission_classes=[AllowAny]), name="api-docs"
    ),
    path("v1/", include("catalog.api_urls")),
    path("v1/", include("sizing.api_urls")),
    path("v1/", include("deploy.api_urls")),
    re_path(r"^v1(?:/.*)?$", Nothing.as_view(), name="api-nothing"),
]
