-- The audit trail is a view of the control events: it cannot differ from them and is as immutable as they are.
-- In canonical JSON a quotation mark inside a text is escaped, so `"stream":"run/` can only be a key and its value.
CREATE VIEW IF NOT EXISTS audit AS
SELECT id, tenant_id, CASE WHEN named > 0 THEN substr(rest, 1, instr(rest, '"') - 1) END AS run_id,
    type, payload, stream, seq, created_at
FROM (
    SELECT id, tenant_id, type, payload, stream, seq, created_at, named, substr(payload, named + 14) AS rest
    FROM (
        SELECT position AS id, org AS tenant_id, type, CAST(payload AS TEXT) AS payload, stream, seq,
            recorded AS created_at, instr(CAST(payload AS TEXT), '"stream":"run/') AS named
        FROM events
        WHERE stream >= 'tally.' AND stream < 'tally/'
    )
);
