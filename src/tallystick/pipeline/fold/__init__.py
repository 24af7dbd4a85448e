"""Folding a whole log on Spark: into pieces, from pieces into packets, from packets into states."""
