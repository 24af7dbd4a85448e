"""`python -m bench.spark`."""

from __future__ import annotations

import sys

from bench.run import main
from bench.spark.rows import CASES

sys.exit(main(cases=CASES, name="bench-spark"))
