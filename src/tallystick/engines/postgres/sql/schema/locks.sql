-- Tables that are only locked. Anyone who may connect can take advisory locks, and could freeze the head or stop
-- appends with them; a login without our roles cannot lock these tables.
--   appending  ROW EXCLUSIVE by every append, taken first: the evidence of functions/prove.sql. A commit over very many
--              streams, or with inline projections, locks everybody else out (SHARE ROW EXCLUSIVE)
--   drawing    while positions are drawn: ROW EXCLUSIVE for one, EXCLUSIVE for several
--   tag_gate   SHARE by a commit with more than 64 tags, instead of a lock for each; ROW EXCLUSIVE by every condition.
--              Each mode excludes the other and not itself. SHARE ROW EXCLUSIVE by a commit that is both
--   changing   SHARE ROW EXCLUSIVE by a session that changes tables of projections: one at a time
--   reading    ROW EXCLUSIVE by a session that reads those tables; SHARE ROW EXCLUSIVE by one that drops one
-- Streams, sources and tags have advisory locks, because there are so many, always in this order, until the transaction
-- ends:
--   (1952541811, hash)  one for each stream, in ascending order of the hash, so that no two commits wait for each other
--   (1952541812, hash)  one for each source of events, and for each command
--   (1952541813, hash)  one for each tag, after `tag_gate`: shared by an append with the tag, exclusive by a condition
-- If a login without our roles holds one of these, the append takes `appending` for itself instead of waiting.

CREATE TABLE tally_locks.appending ();
CREATE TABLE tally_locks.drawing ();
CREATE TABLE tally_locks.tag_gate ();
CREATE TABLE tally_locks.changing ();
CREATE TABLE tally_locks.reading ();
