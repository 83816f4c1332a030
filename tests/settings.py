"""Settings under test: the project's own, on the clone's embedded services, apart from the demo's data.

TEST_DB_SUFFIX gives a test run a database and a part of Valkey of its own, so that several can run at once.
Other servers: TEST_DATABASE_URL and TEST_REDIS_URL (never DATABASE_URL: tests empty what they are given).
"""

from __future__ import annotations

import os
import zlib

from arrakis import embedded

_SUFFIX = os.environ.get("TEST_DB_SUFFIX", "")

if "TEST_DATABASE_URL" in os.environ and "TEST_REDIS_URL" in os.environ:
    os.environ["DATABASE_URL"] = os.environ["TEST_DATABASE_URL"]
    os.environ["REDIS_URL"] = os.environ["TEST_REDIS_URL"]
else:
    _services = embedded.ensure(instance="tests", durable=False)
    os.environ["DATABASE_URL"] = _services.database_url
    # 64 numbered parts: the first is for runs without a name.
    _part = 1 + zlib.crc32(_SUFFIX.encode()) % 63 if _SUFFIX else 0
    os.environ["REDIS_URL"] = _services.redis_url.rsplit("/", 1)[0] + f"/{_part}"
for _name in ("PRODUCTION", "DEBUG", "SITE_URL", "GATEWAY_URL", "GATEWAY_HOSTS", "HF_ENDPOINT", "HF_TOKEN"):
    os.environ.pop(_name, None)
# A hub that nobody reaches by accident; tests that need one start their own.
os.environ["HF_ENDPOINT"] = "http://127.0.0.1:9"

from arrakis.settings import *  # noqa: E402, F403
from arrakis.settings import DATABASES  # noqa: E402

DATABASES["default"]["TEST"] = {"NAME": f"test_arrakis_{_SUFFIX}" if _SUFFIX else "test_arrakis"}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # real ones take a tenth of a second each
EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
