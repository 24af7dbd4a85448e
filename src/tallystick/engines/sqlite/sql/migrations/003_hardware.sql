-- Attestation: on what hardware a node runs, who vouches for it, and which attested node made an attempt.

ALTER TABLE nodes ADD COLUMN hardware TEXT;
ALTER TABLE nodes ADD COLUMN attestation BLOB;
ALTER TABLE nodes ADD COLUMN attestation_type TEXT;
ALTER TABLE nodes ADD COLUMN attested_at INTEGER;
ALTER TABLE job_attempts ADD COLUMN attestation_hash BLOB;
