"""The demo's machine itself: an SSH server that stands for a rented bare host.

It runs as a user that owns nothing else, by an interpreter that user can reach: standard library and asyncssh only,
nothing else of the project. What makes it ready, and may be root, is arrakis.demo.host.
"""
