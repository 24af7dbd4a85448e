"""The ndjson engine: one directory per run, one line per event, readable with any text tool.

    DIR/store.json                     the identity of the store: format, store id, profile
    DIR/streams.ndjson                 the number of every stream, in the order of their first append
    DIR/runs/<run_id>/events.ndjson    the log of a run: see line.py for the line
    DIR/runs/<run_id>/synced           how far that log is known to be synced: see mark.py
    DIR/runs/<run_id>/lease.ndjson     who may write to it: see lease.py
    DIR/runs/<run_id>/lock             held during a commit
    DIR/runs/<run_id>/snapshot.json    the state of the run, derived from its events; written by `tallystick.runs`
    DIR/runs/<run_id>/quarantine/      what recovery cut from the log
    DIR/control/<kind>/<name>/         the same for control facts (`tally.*`)

Invariants
- A line is never changed. A commit consists of the lines that have the same pair of seqs in `commit`. Either all of
  them count, or none.
- A commit is written after the one before it was synced, and acknowledged after its own sync. So invalid bytes at the
  end are a torn commit. Invalid bytes that a later commit follows, or before the synced mark, are damage.
- A torn commit is copied to quarantine and cut. Damage is never cut: the run is refused by name and range. Other runs
  are not affected.
- position = number of the stream << 32 | seq. It is unique and rises within a stream. It orders nothing between
  streams.
- Streams are `run/<id>` and the store's own `tally.*`; a commit goes to one stream; ids are unique within a stream.
"""
