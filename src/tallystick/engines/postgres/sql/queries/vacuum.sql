VACUUM tally.events, tally.snapshots, tally.commands, tally.command_ranges
