"""Set up this clone: `python3 arrakis/bootstrap GROUP...`, where a GROUP is one of demo, test, browser, lint.

Readable by any Python 3, so that one that is too old says so instead of failing to read this.
"""

import os
import sys

OLDEST = (3, 11)

if sys.version_info < OLDEST:
    sys.stderr.write(
        "Arrakis needs Python %d.%d or newer; %s is %d.%d. Name another: make demo PYTHON=/path/to/python3.12\n"
        % (OLDEST + (sys.executable, sys.version_info[0], sys.version_info[1]))
    )
    sys.exit(1)

# Run by its folder's name, which must not be where modules are looked for: arrakis/http.py is not Python's http.
sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from arrakis.bootstrap.steps import main  # noqa: E402

sys.exit(main(sys.argv[1:]))
