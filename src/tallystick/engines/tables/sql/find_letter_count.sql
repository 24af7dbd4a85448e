SELECT number FROM kept_counts WHERE what = 'dead_letters'
