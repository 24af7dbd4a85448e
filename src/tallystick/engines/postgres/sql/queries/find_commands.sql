SELECT known.org, known.actor, known.endpoint, known.key, known.request_hash, known.response, known.recorded,
    ARRAY(SELECT stream FROM tally.command_ranges WHERE command = known.number ORDER BY part),
    ARRAY(SELECT first_seq FROM tally.command_ranges WHERE command = known.number ORDER BY part),
    ARRAY(SELECT last_seq FROM tally.command_ranges WHERE command = known.number ORDER BY part),
    ARRAY(SELECT first_position FROM tally.command_ranges WHERE command = known.number ORDER BY part),
    ARRAY(SELECT last_position FROM tally.command_ranges WHERE command = known.number ORDER BY part),
    ARRAY(SELECT link FROM tally.command_ranges WHERE command = known.number ORDER BY part)
FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[]) AS asked(org, actor, endpoint, key)
JOIN tally.commands AS known ON (known.org, known.actor, known.endpoint, known.key)
    = (asked.org, asked.actor, asked.endpoint, asked.key)
