SELECT consumer, count(*) FROM dead_letters GROUP BY consumer
