"""Every error that a user can meet, under one base. There is one file per theme, and all errors are importable here.

The class of an error names the broken rule, the attributes are its values, and the advice says what to do next.
`exit_status` is the exit status of `tally`: 1 if the answer is no, 2 if the command could not run.
"""

from __future__ import annotations

from tallystick.errors.base import *
from tallystick.errors.commands import *
from tallystick.errors.community import *
from tallystick.errors.decide import *
from tallystick.errors.given import *
from tallystick.errors.lifecycle import *
from tallystick.errors.pipeline import *
from tallystick.errors.refused import *
from tallystick.errors.runs import *
from tallystick.errors.service import *
from tallystick.errors.tokens import *
from tallystick.errors.unavailable import *
