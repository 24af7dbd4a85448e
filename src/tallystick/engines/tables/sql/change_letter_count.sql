UPDATE kept_counts SET number = number + ? WHERE what = 'dead_letters'
