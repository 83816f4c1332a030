"""The processes that hold the SSH connections to running machines (DESIGN sections 5.5 and 7).

    python -m deploy.tunnels [--shard 0/1]

For every machine with a replica between installing and unhealthy, one connection with the tunnel's own key: its
forced command streams the state file, and a Unix socket here leads to the engine's port there.

paths.py     where a machine's socket is                                         (pure)
backoff.py   how long to wait before trying again                                (pure)
wanted.py    which machines need a tunnel: the one query
listener.py  the Unix socket, and the bytes to and from the engine
watch.py     the state stream: parsed strictly, capped
reports.py   what the machines say, written a few times a second in one statement
tunnel.py    one machine's connection: open, keep, reconnect
keeper.py    all machines of a shard: start, restart, stop
shardlock.py one process a shard
process.py   the loop, and its end
"""

from deploy.tunnels.paths import socket_path

__all__ = ["socket_path"]
