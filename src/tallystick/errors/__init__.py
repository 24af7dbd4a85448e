"""Every error a user can meet, under one base; one file a theme, all of them named here.

An error names the rule that was broken (its class), carries the values as attributes, and says what to do next.
`exit_status` is what `tally` exits with: 1 when the answer is no, 2 when the question could not be put.
"""

from __future__ import annotations

from tallystick.errors.base import *
from tallystick.errors.commands import *
from tallystick.errors.community import *
from tallystick.errors.given import *
from tallystick.errors.lifecycle import *
from tallystick.errors.pipeline import *
from tallystick.errors.refused import *
from tallystick.errors.runs import *
from tallystick.errors.service import *
from tallystick.errors.tokens import *
from tallystick.errors.unavailable import *
