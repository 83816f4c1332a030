"""Numbers, memory, money, dates by CLDR: the one place that writes them for people (DESIGN section 4, "Formats").

Every function takes the language code last (`fr`, `pt-br`); without it, the reader's active language is used.
In templates: `{% load localize %}`, then the filters of `arrakis/templatetags/localize.py`, which bear the same names.

    number(value)            1,808          percent(share)         20%
    parameters(count)        753B           memory(gb)             1,808 GB
    gpu_memory(gb)           262.5 GB       data(bytes)            105 MB
    progress(done, total)    72 MB / 145 MB (49%)
    money(usd)               $36.80         per_hour(usd)          $36.80 per hour
    per_gpu_hour(usd)        $4.60 per GPU-hour
    plain(usd)               36.80          (attributes and JSON: not for people)
    day(date)                August 25, 2026
    moment(datetime)         Oct 31, 2026, 5:40 PM UTC
    duration(seconds)        2 h 05 min     age(seen, now)         40 seconds ago
"""

from arrakis.localize.money import money, per_gpu_hour, per_hour, plain
from arrakis.localize.numbers import data, gpu_memory, memory, number, parameters, percent, progress
from arrakis.localize.times import age, day, duration, moment

__all__ = [
    "age",
    "data",
    "day",
    "duration",
    "gpu_memory",
    "memory",
    "moment",
    "money",
    "number",
    "parameters",
    "per_gpu_hour",
    "per_hour",
    "percent",
    "plain",
    "progress",
]
