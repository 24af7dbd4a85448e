"""The service: one store over HTTP, for programs and for people. `tally serve URL` runs it."""
