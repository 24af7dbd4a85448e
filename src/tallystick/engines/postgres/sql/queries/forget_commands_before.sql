SELECT tally.forget_commands_before(%s, %s)
