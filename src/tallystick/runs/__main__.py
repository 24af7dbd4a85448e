"""`python -m tallystick.runs`: generate the shipped JSON Schemas from the classes."""

from pathlib import Path

from tallystick.runs import schema

schema.write(Path(__file__).with_name("schemas"))
