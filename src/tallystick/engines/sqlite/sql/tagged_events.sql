SELECT position, meta FROM events WHERE stream = ? AND seq <= ? AND instr(meta, x'2274616773223a5b22') > 0 /* "tags":[" */
