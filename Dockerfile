# syntax=docker/dockerfile:1
# One image for every process of production; compose.yaml names the command of each.
FROM python:3.12-slim-bookworm AS build
COPY --from=ghcr.io/astral-sh/uv:0.13.9 /uv /usr/local/bin/uv
ENV UV_LINK_MODE=copy UV_COMPILE_BYTECODE=1 UV_PYTHON_DOWNLOADS=never
WORKDIR /srv/arrakis
COPY pyproject.toml uv.lock ./
RUN --mount=type=cache,target=/root/.cache/uv \
    uv sync --locked --no-default-groups --no-build --python /usr/local/bin/python3
COPY manage.py ./
COPY arrakis arrakis
COPY catalog catalog
COPY sizing sizing
COPY deploy deploy
COPY templates templates
COPY locale locale
# Both steps need no database: whatever they would ask for is named and never reached.
RUN for po in locale/*/LC_MESSAGES/django.po; do \
        [ ! -e "$po" ] || .venv/bin/python -m arrakis.bootstrap.catalogues "$po" || exit 1; \
    done \
    && PRODUCTION=true DATABASE_URL=postgresql://none@127.0.0.1:9/none REDIS_URL=redis://127.0.0.1:9/0 SECRET_KEY=build \
       ENCRYPTION_KEYS=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= ALLOWED_HOSTS=localhost \
       STATIC_ROOT=/srv/arrakis/staticfiles .venv/bin/python manage.py collectstatic --noinput

FROM python:3.12-slim-bookworm
RUN useradd --system --uid 10001 --home-dir /srv/arrakis --shell /usr/sbin/nologin arrakis \
    && install -d -m 0700 -o arrakis -g arrakis /run/arrakis
COPY --from=build /srv/arrakis /srv/arrakis
WORKDIR /srv/arrakis
ENV PATH=/srv/arrakis/.venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    DJANGO_SETTINGS_MODULE=arrakis.settings PRODUCTION=true STATIC_ROOT=/srv/arrakis/staticfiles
USER arrakis
EXPOSE 8000 8001
CMD ["uvicorn", "arrakis.asgi:application", "--host", "0.0.0.0", "--port", "8000", "--proxy-headers", "--no-access-log"]
