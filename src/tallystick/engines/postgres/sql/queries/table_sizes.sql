SELECT sum(pg_total_relation_size(name::regclass))::bigint FROM unnest(%s::text[]) AS name
