SELECT /* these columns */
FROM tally.events
WHERE position > %(after)s AND position <= %(until)s /* and it is selected */
ORDER BY position
