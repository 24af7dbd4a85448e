"""`python -m bench.http`."""

from __future__ import annotations

import sys

from bench.http.rows import CASES
from bench.run import main

sys.exit(main(cases=CASES, name="http"))
