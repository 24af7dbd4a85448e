SELECT status, seq, position, link, org
FROM tally.append_unless(
    $1::text, $2::bigint, $3::text, $4::integer, $5::uuid, $6::bigint, $7::text, $8::text, $9::bytea, $10::bigint,
    $11::boolean, $12::text, $13::bigint, $14::jsonb, $15::bigint, $16::bigint, $17::text
)
