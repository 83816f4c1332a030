"""make bench [ARGS="--runs 3 --scenarios sat,s1000"]"""

from __future__ import annotations

import argparse
import os
import sys

import django

from tests.bench import load


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Measure, and print ratios.")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--scenarios", default=",".join(load.SCENARIOS), help="of " + ", ".join(load.SCENARIOS))
    arguments = parser.parse_args()
    names = arguments.scenarios.split(",")
    if unknown := set(names) - set(load.SCENARIOS):
        parser.error(f"no such scenario: {', '.join(sorted(unknown))}")
    if load.compiler() is None:
        print("The gateway's benchmark needs a C compiler (cc), and there is none here: nothing was measured.")
        return
    if sys.platform != "linux":
        print("The gateway's benchmark reads /proc and uses epoll: it runs on Linux only. Nothing was measured.")
        return
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    django.setup()
    from tests.bench import gateway

    gateway.run(arguments.runs, names)


if __name__ == "__main__":
    main()
