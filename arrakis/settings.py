"""Settings of the project: one module read from the environment, each name in the README's table."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext_lazy as _

from arrakis import env

BASE_DIR = Path(__file__).resolve().parent.parent

# A clone without settings of its own is a development or demo installation: services, keys and passwords are made
# once per clone (arrakis.embedded). Production names everything itself and refuses to start otherwise.
PRODUCTION = env.flag("PRODUCTION", False)
DEBUG = env.flag("DEBUG", False)
if PRODUCTION and DEBUG:
    raise ImproperlyConfigured("DEBUG must be off in production.")


def _required(name: str) -> str:
    value = env.text(name)
    if not value and PRODUCTION:
        raise ImproperlyConfigured(f"{name} must be set in production; see the settings table in README.md.")
    return value


_database_url, _redis_url = _required("DATABASE_URL"), _required("REDIS_URL")
_secret_key, _encryption_keys = _required("SECRET_KEY"), _required("ENCRYPTION_KEYS")
if not (_database_url and _redis_url and _secret_key and _encryption_keys):
    from arrakis import embedded

    if not (_secret_key and _encryption_keys):
        _own = embedded.clone_secrets()
        _secret_key, _encryption_keys = _secret_key or _own.secret_key, _encryption_keys or _own.encryption_key
    if not (_database_url and _redis_url):
        _services = embedded.ensure()
        _database_url, _redis_url = _database_url or _services.database_url, _redis_url or _services.redis_url

SECRET_KEY = _secret_key
ENCRYPTION_KEYS = [key for key in _encryption_keys.split(",") if key]
"""Fernet keys, newest first: the first encrypts, all decrypt."""

ALLOWED_HOSTS = env.words("ALLOWED_HOSTS", ["localhost", "127.0.0.1", "[::1]", "testserver"])
if PRODUCTION and not env.text("ALLOWED_HOSTS"):
    raise ImproperlyConfigured("ALLOWED_HOSTS must be set in production.")
SITE_URL = env.text("SITE_URL", "http://127.0.0.1:8000").rstrip("/")
SITE_NAME = env.text("SITE_NAME", "Arrakis")
GATEWAY_HOSTS = env.words("GATEWAY_HOSTS", [])
"""Hosts that serve only the gateway; on them Django's pages do not answer. The first names the public endpoint."""
GATEWAY_URL = env.text("GATEWAY_URL", f"https://{GATEWAY_HOSTS[0]}" if GATEWAY_HOSTS else SITE_URL).rstrip("/")
RELEASE = env.text("RELEASE", "dev")
INSTALLATION = env.text("INSTALLATION", "local")
"""Part of every machine's label: two installations on one provider account never touch each other's machines."""
RUN_DIR = Path(env.text("RUN_DIR", "/run/arrakis"))
"""Private folder (0700) for the tunnels' Unix sockets; a short name, because a socket's address holds 107 bytes."""
if not (PRODUCTION or env.text("RUN_DIR")):
    from arrakis import embedded

    RUN_DIR = embedded.run_dir()

METRICS_TOKEN = env.text("METRICS_TOKEN")

HF_ENDPOINT = env.text("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
HF_TOKEN = env.text("HF_TOKEN")

INSTALLED_APPS = [
    "modeltranslation",
    "unfold",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "csp",
    "arrakis",
    "arrakis.accounts",
    "arrakis.audit",
    "catalog",
    "sizing",
    "deploy",
    "deploy.gateway",
    "deploy.ledger",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "arrakis.urls"
ASGI_APPLICATION = "arrakis.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "django.template.context_processors.i18n",
            ],
        },
    }
]


def _database(url: str) -> dict[str, object]:
    """`postgresql://user:password@host:port/name`, or `...?host=/socket/folder` for a Unix socket."""
    parts = urlsplit(url)
    if parts.scheme not in {"postgres", "postgresql"}:
        raise ImproperlyConfigured("DATABASE_URL must begin with postgresql://.")
    query = dict(pair.split("=", 1) for pair in parts.query.split("&") if "=" in pair)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": unquote(query.get("host", parts.hostname or "")),
        "PORT": str(parts.port or query.get("port", "")),
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {"pool": {"min_size": 0, "max_size": 16, "timeout": 10}},
    }


DATABASES = {"default": _database(_database_url)}
REDIS_URL = _redis_url
CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": REDIS_URL, "KEY_PREFIX": "c"}
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = ["arrakis.accounts.backends.EmailBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
LOGIN_URL = "console:sign-in"
LOGIN_REDIRECT_URL = "console:models"
LOGOUT_REDIRECT_URL = "/"
SIGN_UP_OPEN = env.flag("SIGN_UP_OPEN", True)
"""Whether anybody may make an account; closed, staff make them in the admin."""

# Every language the code can speak; translated columns exist for all. PUBLISHED_LANGUAGES chooses what is shown.
ALL_LANGUAGES = [
    ("en", "English"),
    ("fr", "Français"),
    ("pt-br", "Português (Brasil)"),
    ("es", "Español"),
    ("de", "Deutsch"),
    ("it", "Italiano"),
    ("nl", "Nederlands"),
    ("pl", "Polski"),
    ("tr", "Türkçe"),
    ("ja", "日本語"),
    ("ko", "한국어"),
    ("zh-hans", "简体中文"),
    ("ar", "العربية"),
]
PUBLISHED_LANGUAGES = env.words("PUBLISHED_LANGUAGES", ["en", "fr", "pt-br"])
if unknown := set(PUBLISHED_LANGUAGES) - {code for code, _name in ALL_LANGUAGES}:
    raise ImproperlyConfigured(
        f"PUBLISHED_LANGUAGES names languages the code does not have: {', '.join(sorted(unknown))}."
    )
LANGUAGES = [(code, name) for code, name in ALL_LANGUAGES if code in PUBLISHED_LANGUAGES]
LANGUAGE_CODE = "en"
MODELTRANSLATION_LANGUAGES = tuple(code for code, _name in ALL_LANGUAGES)
MODELTRANSLATION_DEFAULT_LANGUAGE = "en"
MODELTRANSLATION_FALLBACK_LANGUAGES = ("en",)
LOCALE_PATHS = [BASE_DIR / "locale"]
USE_I18N = True
USE_TZ = True
TIME_ZONE = "UTC"

STATIC_URL = "/static/"
STATIC_ROOT = Path(env.text("STATIC_ROOT", str(BASE_DIR / ".arrakis" / "static")))
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"
        if PRODUCTION
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}
WHITENOISE_USE_FINDERS = not PRODUCTION

CONTENT_SECURITY_POLICY = {
    "EXCLUDE_URL_PREFIXES": ["/admin/", "/api/docs/"],
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
        "manifest-src": [SELF],
    },
}
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = PRODUCTION
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if env.flag("BEHIND_PROXY", False) else None
SECURE_HSTS_SECONDS = 31_536_000 if PRODUCTION else 0
SECURE_SSL_REDIRECT = False
X_FRAME_OPTIONS = "DENY"
CSRF_TRUSTED_ORIGINS = [SITE_URL]
CSRF_FAILURE_VIEW = "deploy.console.views.session.csrf_failure"
DATA_UPLOAD_MAX_MEMORY_SIZE = 1_000_000

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "arrakis.accounts.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["arrakis.parsers.BoundedJsonParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "arrakis.api.exception_handler",
    "DEFAULT_THROTTLE_RATES": {"read": "600/min", "write": "120/min"},
    "COERCE_DECIMAL_TO_STRING": True,
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
REASONS = "deploy.reasons"
"""The module that turns reason codes into sentences, for the API's errors."""
SPECTACULAR_SETTINGS = {
    "TITLE": "Arrakis",
    "DESCRIPTION": "Size models, quote machines, deploy, and manage what runs.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
    "SCHEMA_PATH_PREFIX": "/api/v1",
}

CELERY_BROKER_URL = REDIS_URL
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = False  # PostgreSQL is the truth: the sweep finds what a lost worker left
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_BROKER_TRANSPORT_OPTIONS = {"visibility_timeout": 600}
CELERY_TASK_IGNORE_RESULT = True
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_TIME_LIMIT = 180
CELERY_TASK_SOFT_TIME_LIMIT = 150
CELERY_BEAT_SCHEDULE_FILENAME = str(RUN_DIR / "beat-schedule")

# The shop's own rules (DESIGN section 5).
QUOTE_MINUTES = 5
HOLD_MINUTES = 60
FREE_START_MINUTES = env.integer("FREE_START_MINUTES", 20, low=0, high=240)
FREE_START_AT_ONCE = env.integer("FREE_START_AT_ONCE", 2, low=1, high=100)
FREE_START_MINUTES_A_DAY = env.integer("FREE_START_MINUTES_A_DAY", 120, low=0, high=10_000)
PRICE_TERM_DAYS = 30
LEASE_SECONDS = env.integer("LEASE_SECONDS", 30, low=1, high=600)
"""How long what a killed worker held stays held; a living one renews it."""
ORPHAN_GRACE_SECONDS = env.integer("ORPHAN_GRACE_SECONDS", 600, low=0, high=86_400)
"""How long a label of ours that no machine row has is left alone, after it was first seen at a provider."""

UNFOLD = {
    "SITE_TITLE": _("Arrakis staff"),
    "SITE_HEADER": SITE_NAME,
    "SITE_URL": "/",
    "SHOW_HISTORY": True,
    "SHOW_VIEW_ON_SITE": False,
    # The accent of the pages (arrakis/static/css/tokens.css), light to dark.
    "COLORS": {
        "primary": {
            "50": "#fdf5ef",
            "100": "#fae6d8",
            "200": "#f4caae",
            "300": "#edab80",
            "400": "#f08a4b",
            "500": "#d9661f",
            "600": "#b4480f",
            "700": "#943a0d",
            "800": "#772f0e",
            "900": "#61280f",
            "950": "#351305",
        },
    },
    "SIDEBAR": {"show_search": True, "navigation": "arrakis.staff.navigation"},
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": env.text("LOG_LEVEL", "INFO")},
    "loggers": {"asyncssh": {"level": "WARNING"}, "httpx": {"level": "WARNING"}},
}
