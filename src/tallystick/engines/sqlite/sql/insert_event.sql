INSERT INTO events (position, stream, seq, type, version, id, time, payload, meta, checksum, link, signature,
    recorded, org, app, env)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
