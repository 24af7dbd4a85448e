SELECT proven.head, proven.pending, proven.holders, newest.link
FROM tally.prove(%s::bigint, %s::bigint, %s::text[]) AS proven
LEFT JOIN tally.events AS newest ON newest.position = proven.head
