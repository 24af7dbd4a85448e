DELETE FROM commands WHERE org = ? AND actor = ? AND endpoint = ? AND key = ?
