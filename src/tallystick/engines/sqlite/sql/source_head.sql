SELECT seq FROM sources WHERE source = ?
