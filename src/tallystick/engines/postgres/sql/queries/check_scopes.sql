-- Events whose org, app or env is not what their meta says.
SELECT 'scope', 'its org, app or env is not what its meta says', position, stream, seq
FROM tally.events
WHERE (org, app, env) IS DISTINCT FROM (meta::jsonb ->> 'org', meta::jsonb ->> 'app', meta::jsonb ->> 'env')
