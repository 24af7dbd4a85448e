SELECT seq, link, org FROM tally.streams WHERE stream = %s
