"""The parts of the streaming job: its source of batch ends, the size of a batch, and the rows of a batch."""
