UPDATE tally.views SET row_count = row_count + %(more)s WHERE number = %(number)s
