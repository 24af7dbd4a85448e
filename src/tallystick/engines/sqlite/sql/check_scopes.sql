-- Events whose org, app or env is not what their meta says.
SELECT position, stream, seq
FROM events
WHERE org IS NOT json_extract(CAST(meta AS TEXT), '$.org')
    OR app IS NOT json_extract(CAST(meta AS TEXT), '$.app')
    OR env IS NOT json_extract(CAST(meta AS TEXT), '$.env')
