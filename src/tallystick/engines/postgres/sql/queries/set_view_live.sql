UPDATE tally.views SET live = %s WHERE projection = %s AND epoch = %s
