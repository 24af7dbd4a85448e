-- The hardware of workers, and its attestation.
ALTER TABLE nodes ADD COLUMN hardware text, ADD COLUMN attestation bytea, ADD COLUMN attestation_type text,
    ADD COLUMN attested_at bigint;
ALTER TABLE job_attempts ADD COLUMN attestation_hash bytea;
