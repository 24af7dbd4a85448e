-- The fingerprint of a run, with what it was computed by: other code means "not comparable", not "damaged".

ALTER TABLE runs ADD COLUMN fingerprint BLOB;
ALTER TABLE runs ADD COLUMN fingerprint_seq INTEGER;
ALTER TABLE runs ADD COLUMN fingerprint_reducer TEXT;
ALTER TABLE runs ADD COLUMN fingerprint_reducer_version INTEGER;
ALTER TABLE runs ADD COLUMN fingerprint_upcasters BLOB;
