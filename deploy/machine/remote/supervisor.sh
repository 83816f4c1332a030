#!/bin/sh
# The way into the label's folder on a rented machine. Any POSIX sh, root or not; needs a Python 3.8 somewhere.
#
#   init                 folders, and a free port of the loopback for the engine; prints {"port", "base"}
#   fetch                begins or goes on with the download, in the background; the hub's token on stdin, or nothing
#   start stop restart   the engine, kept up until `stop`
#   status               the state, one line of JSON
#   watch                the same whenever it changes and every few seconds; the tunnel's key can do nothing but this
#   log [LINES]          the engine's last lines
set -u
umask 077

base=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P) || exit 70
ARRAKIS_LABEL=${base##*/} # every process of ours carries it: that is how `wipe` finds them all
export ARRAKIS_LABEL

for python in python3 /usr/bin/python3 /usr/local/bin/python3 /opt/conda/bin/python3; do
    if command -v "$python" >/dev/null 2>&1 &&
        "$python" -E -s -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null; then
        exec "$python" -E -s "$base/supervisor.py" "$@"
    fi
done
echo 'python_missing' >&2
exit 69
