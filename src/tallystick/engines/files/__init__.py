"""The segmented file log.

    DIR/current.log              the segment that is written to
    DIR/YYYY-MM-DD_NNN.log       sealed segments; their order is in their headers, not in their names
    DIR/index/*.idx              what can be rebuilt from a segment: ids, streams, positions
    DIR/index/*.tags             what can be rebuilt too: which events have which type and tags
    DIR/synced                   the synced mark: how far the log is known to be on disk
    DIR/quarantine/              torn tails, damaged segments, copies; only erased payloads are removed from it
    DIR/snapshots/*.snap         snapshots of state, each named by a frame
    DIR/beside.db                checkpoints and view rows (SQLite), made when first used
    DIR/beside.db.mark           how many writes were made to that database
    DIR/damage.json              damage that is on record; only while there is any (engines/damage_file.py)
    DIR/lock                     held by the one writer, with the directory itself

Invariants:
- A frame is one commit, whole or absent. A segment is a header and frames, with nothing between them.
- An append writes its frame, syncs it and writes the mark; then it is acknowledged. The mark may lag; it never leads.
- Readers in other processes stop at the mark, so that they never see what a crash could take back.
- Positions rise by one from frame to frame and from segment to segment. A header names the segment before it, and
  where that one ends.
- A side record prunes or erases; it is in the frame of the control fact that says so, so that both are durable or
  neither. The bytes stay until their segment is written again, but no reader is given them.
- Only bytes past the mark with no valid frame after them are a torn tail and may be cut. Anything else that is not
  valid is damage: the log opens read-only, names the hole, and changes no byte.
- A sealed segment changes only as a whole: its next generation takes its place. Frames, indexes and open files are
  bound to the identity of a generation, so that a reader finishes with the generation that it began with, or notices.

Modes: open for writing (holds the lock), read-only by request, read-only because damaged, poisoned after a failed
write or fsync (until reopened), closed. `docs/formats/file-log.md` has the bytes.
"""
