"""python -m deploy.tunnels [--shard 0/1]"""

from __future__ import annotations

import argparse
import os
import resource
import sys

import django


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m deploy.tunnels", description="Hold the tunnels to machines.")
    parser.add_argument("--shard", default="0/1", metavar="INDEX/COUNT", help="which part of the machines (0/1: all)")
    arguments = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "arrakis.settings")
    django.setup()
    from deploy.tunnels import process
    from deploy.tunnels.shardlock import ShardTaken
    from deploy.tunnels.wanted import Shard

    try:
        shard = Shard.parse(arguments.shard)
    except ValueError as error:
        parser.error(str(error))
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        process.main(shard)
    except ShardTaken as taken:
        sys.exit(f"{taken}.")


if __name__ == "__main__":
    main()
