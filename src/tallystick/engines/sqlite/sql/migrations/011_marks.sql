-- From here on who writes is known by locks, and a mark beside the file says how far the log goes (`<file>.mark`). A
-- version before this one keeps neither, so it must not write. `writers` is for people to read.

DELETE FROM writers;
