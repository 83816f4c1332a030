"""What every test shares."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test.utils import setup_databases, teardown_databases


@pytest.fixture(scope="session")
def django_db_setup(
    request: pytest.FixtureRequest, django_test_environment: None, django_db_blocker: pytest.FixtureRequest
) -> Iterator[None]:
    """The test database, for tests that commit too: pytest-django makes it only for those that ask for `db`."""
    with django_db_blocker.unblock():  # type: ignore[attr-defined]
        made = setup_databases(verbosity=0, interactive=False, aliases={"default"}, serialized_aliases=set())
        yield
        teardown_databases(made, verbosity=0)
