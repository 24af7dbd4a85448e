SELECT * FROM job_attempts ORDER BY job_id, attempt
