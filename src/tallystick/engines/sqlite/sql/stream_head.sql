SELECT seq, link, org FROM streams WHERE stream = ?
