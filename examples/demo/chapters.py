"""The chapters, in the order they are played. A new one is a file here and a name in this list."""

from __future__ import annotations

from examples.demo import crash, life, pipeline, proof

CHAPTERS = (crash.CHAPTER, proof.CHAPTER, pipeline.CHAPTER, life.CHAPTER)
