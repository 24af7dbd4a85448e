SELECT position FROM tally.erasures WHERE position = ANY (%s::bigint[])
