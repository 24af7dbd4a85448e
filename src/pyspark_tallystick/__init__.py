"""Where Spark looks for a data source by itself: `spark.read.format("tallystick")` finds `DefaultSource` here."""

from tallystick.pipeline.source.data_source import TallystickSource as DefaultSource

__all__ = ["DefaultSource"]
