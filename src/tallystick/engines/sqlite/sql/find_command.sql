SELECT number, request_hash, response, recorded
FROM commands
WHERE org = ? AND actor = ? AND endpoint = ? AND key = ?
