"""The ndjson engine: a directory a run, one line an event, readable with any text tool.

    DIR/store.json                     who the store is: format, store id, profile
    DIR/streams.ndjson                 the number of every stream, in the order of their first append
    DIR/runs/<run_id>/events.ndjson    the log of a run: see line.py for the line
    DIR/runs/<run_id>/synced           how far that log is known to be on disk: see mark.py
    DIR/runs/<run_id>/lease.ndjson     who may write to it: see lease.py
    DIR/runs/<run_id>/lock             held during a commit
    DIR/runs/<run_id>/snapshot.json    the state of the run, derived from its events; written by `tallystick.runs`
    DIR/runs/<run_id>/quarantine/      what recovery cut off
    DIR/control/<kind>/<name>/         the same for control facts (`tally.*`)

Invariants
- A line is never changed. A commit is the lines whose `commit` is the same pair of seqs: all of them count, or none.
- A commit is written after the one before it was synced, and acknowledged after its own sync. So what is invalid at the
  end is a torn commit, and what is invalid with a later commit behind it, or before the synced mark, is damage.
- A torn commit is copied to quarantine and cut. Damage is never cut: the run is refused by name and range, and other
  runs go on.
- position = number of the stream << 32 | seq: unique, and rising within a stream; between streams it orders nothing.
- Streams are `run/<id>` and the store's own `tally.*`; a commit goes to one stream; ids are unique within a stream.
"""
