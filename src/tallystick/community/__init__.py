"""Communities: signed events, one feed an author, and gossip that converges."""
