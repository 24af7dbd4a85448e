DELETE FROM tally.views WHERE number = %(number)s AND position = -1
