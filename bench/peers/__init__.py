"""What we are measured against: other event stores, and the bare system underneath."""
