"""The front door: language redirect, probes, and the pages for what is not there or went wrong."""

from __future__ import annotations

from django.db import connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.utils.cache import patch_vary_headers
from django.utils.translation import get_language_from_request


def root(request: HttpRequest) -> HttpResponse:
    response = redirect(f"/{get_language_from_request(request)}/")
    patch_vary_headers(response, ["Accept-Language", "Cookie"])
    return response


def healthz(request: HttpRequest) -> HttpResponse:
    return JsonResponse({"status": "ok"})


def readyz(request: HttpRequest) -> HttpResponse:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return JsonResponse({"status": "ok"})


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return render(request, "404.html", status=404)


def server_error(request: HttpRequest) -> HttpResponse:
    """Without the request's context, so that nothing of it, session and database included, can fail again."""
    return HttpResponse(render_to_string("500.html"), status=500)
