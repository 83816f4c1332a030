"""The gateway as a process of its own:  python -m deploy.gateway --host 127.0.0.1 --port 8001

Stopped by SIGTERM or SIGINT: nothing new is taken, streams get `--drain` seconds to end, counts are written.
"""

from __future__ import annotations

import argparse
import os
import resource

import django
import uvicorn


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m deploy.gateway", description="Serve the OpenAI-compatible API.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8001)
    parser.add_argument("--drain", type=int, default=20, metavar="SECONDS", help="for streams to end, when stopped")
    arguments = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "arrakis.settings")
    django.setup()
    _allow_many_files()
    uvicorn.run(
        "deploy.gateway.app:standalone",
        host=arguments.host,
        port=arguments.port,
        loop="uvloop",
        http="httptools",
        lifespan="on",
        access_log=False,
        server_header=False,
        backlog=4096,
        timeout_graceful_shutdown=arguments.drain,
        log_config=None,
    )


def _allow_many_files() -> None:
    """A stream takes two: the client's connection and the machine's."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    main()
