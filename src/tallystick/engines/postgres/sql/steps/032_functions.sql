-- Every function is installed again, as after each step. What only the owner's functions call is no longer granted.

REVOKE EXECUTE ON FUNCTION tally.announce_append, tally.appending, tally.draw, tally.judge_change, tally.refuse_change,
    tally.refuse_row, tally.require_safe FROM tally_maintenance;
