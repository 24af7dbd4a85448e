-- A login that appends could store signatures of any length. What is stored already is not looked at.

ALTER TABLE tally.events
    ADD CONSTRAINT signatures_have_64_bytes CHECK (octet_length(signature) = 64) NOT VALID;
