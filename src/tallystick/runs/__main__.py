"""`python -m tallystick.runs`: write the shipped JSON Schemas anew from the classes."""

from pathlib import Path

from tallystick.runs import schema

schema.write(Path(__file__).with_name("schemas"))
