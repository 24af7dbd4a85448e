-- The seal of a run.
ALTER TABLE runs ADD COLUMN fingerprint bytea, ADD COLUMN fingerprint_seq bigint, ADD COLUMN fingerprint_reducer text,
    ADD COLUMN fingerprint_reducer_version bigint, ADD COLUMN fingerprint_upcasters bytea;
