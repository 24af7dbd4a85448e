SELECT tally.drop_view_tables(%s)
