SELECT tally.write_commands(
    %s::text[], %s::text[], %s::text[], %s::text[], %s::bytea[], %s::bytea[], %s::bigint[],
    %s::integer[], %s::integer[], %s::text[], %s::bigint[], %s::bigint[]
)
