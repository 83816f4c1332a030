"""The database's clock: the one that leases, money and charged time are told by, whichever machine asks."""

from __future__ import annotations

from datetime import datetime

from django.db import connection
from django.db.models import DateTimeField, Func


class ClockTimestamp(Func):
    """`clock_timestamp()` inside a query: the instant it runs, not when its transaction began."""

    function = "clock_timestamp"
    output_field = DateTimeField()


def now() -> datetime:
    """The instant the database answers, with its time zone."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        (moment,) = cursor.fetchone()
    if not isinstance(moment, datetime):
        raise TypeError("the database did not answer with a time")
    return moment
