"""What runs on a rented machine. Standard library of Python 3.8, no import of Arrakis: the files are copied there.

label.py        what a label is there: folder, processes, key lines; its verbs are run from stdin, nothing installed
supervisor.sh   the way in: finds a Python, hands over to supervisor.py
supervisor.py   keeps the engine up; state, watch, log
fetch.py        downloads the weights
statefile.py    the one state file both of them write
facts.sh        what the machine is, before anything is there
"""
