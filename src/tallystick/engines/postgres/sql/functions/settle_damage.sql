-- Let appends pass while the findings are being settled, or no longer. The store was verified before, and the control
-- fact about it can then be appended.
CREATE OR REPLACE FUNCTION tally.settle_damage(is_settling boolean) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    UPDATE tally.damage SET settling = is_settling WHERE settling <> is_settling
$$;

GRANT EXECUTE ON FUNCTION tally.settle_damage TO tally_maintenance;
