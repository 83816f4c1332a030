"""Set up this clone: `python3 arrakis/bootstrap GROUP...`, where a GROUP is one of demo, test, browser, lint.

Readable by any Python 3, so that one that is too old says so instead of failing to read this.
"""

# ruff: noqa: UP032, UP036, PTH100, PTH118, PTH120
import os.path
import sys

if sys.version_info < (3, 11):
    sys.stderr.write(
        "Arrakis needs Python 3.11 or newer; {} is {}.{}. Name another: make demo PYTHON=/path/to/python3.12\n".format(
            sys.executable, sys.version_info[0], sys.version_info[1]
        )
    )
    sys.exit(1)

# Run by its folder's name, which must not be where modules are looked for: arrakis/http.py is not Python's http.
sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")

from arrakis.bootstrap.steps import main  # noqa: E402

sys.exit(main(sys.argv[1:]))
