"""The work done on a rented machine over SSH. `host` is what the rest of Arrakis calls; it is synchronous.

ssh.py      one connection: connect(target) -> Session.run / put, with time limits, output caps, a pinned host key
host.py     the verbs: claim, check, install, start_fetch, start_engine, read_status, read_log, keys, wipe
status.py   parse_status: a machine's state line, trusted with nothing
keys.py     public keys as people paste them, and the lines made of them
errors.py   what can go wrong, and whose fault it is
remote/     what runs on the machine: standard library of Python 3.8+, imports nothing of Arrakis
"""
