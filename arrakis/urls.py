"""Addresses (DESIGN section 6). Public pages and the console carry their language; the API and probes do not."""

from __future__ import annotations

from django.conf.urls.i18n import i18n_patterns
from django.contrib import admin
from django.urls import include, path

from arrakis import robots, views
from deploy.probes import metrics

urlpatterns = [
    path("", views.root, name="root"),
    path("robots.txt", robots.robots, name="robots"),
    path("sitemap.xml", robots.sitemap, name="sitemap"),
    path("healthz", views.healthz, name="healthz"),
    path("readyz", views.readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
    path("admin/", admin.site.urls),
    path("api/", include("arrakis.api_urls")),
    *i18n_patterns(
        path("", include("sizing.urls")),
        path("", include("catalog.urls")),
        path("console/", include("deploy.console.urls")),
        prefix_default_language=True,
    ),
]

handler404 = "arrakis.views.not_found"
handler500 = "arrakis.views.server_error"
