"""What a database knows of the schemas of a store, as text that can be compared."""

from __future__ import annotations

from typing import Any

import psycopg

_SCHEMAS = "('tally', 'tally_locks', 'tally_views')"
_RIGHTS = """
(SELECT string_agg(pg_get_userbyid(grantee) || ' ' || privilege_type || is_grantable, ', '
    ORDER BY pg_get_userbyid(grantee), privilege_type) FROM aclexplode({acl}))
"""
# Without any grants, an object has no list of rights; its owner has the same ones then.
_LISTS = {
    "nspacl": "coalesce(nspacl, acldefault('n', nspowner))",
    "relacl": """coalesce(relacl, CASE WHEN relkind <> 'i' THEN
        acldefault(CASE relkind WHEN 'S' THEN 's'::"char" ELSE 'r' END, relowner) END)""",
    "attacl": "attacl",
    "proacl": "coalesce(proacl, acldefault('f', proowner))",
    "defaclacl": "defaclacl",
}
_PARTS = {
    "schema": "SELECT nspname, pg_get_userbyid(nspowner), {rights:nspacl} FROM pg_namespace WHERE nspname IN {schemas}",
    "relation": """
        SELECT relname, relkind, pg_get_userbyid(relowner), reloptions, relpersistence, relrowsecurity,
            relforcerowsecurity, {rights:relacl}, CASE WHEN relkind = 'v' THEN pg_get_viewdef(pg_class.oid) END
        FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname IN {schemas}
    """,
    "column": """
        SELECT attrelid::regclass, row_number() OVER (PARTITION BY attrelid ORDER BY attnum), attname,
            format_type(atttypid, atttypmod), attnotnull, attidentity, collname,
            pg_get_expr(adbin, adrelid), {rights:attacl}
        FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid JOIN pg_namespace ON pg_namespace.oid = relnamespace
        LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        LEFT JOIN pg_collation ON pg_collation.oid = attcollation
        WHERE nspname IN {schemas} AND attnum > 0 AND NOT attisdropped
    """,
    "constraint": """
        SELECT conrelid::regclass, conname, pg_get_constraintdef(pg_constraint.oid), convalidated
        FROM pg_constraint JOIN pg_namespace ON pg_namespace.oid = connamespace WHERE nspname IN {schemas}
    """,
    "index": "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname IN {schemas}",
    "trigger": """
        SELECT tgrelid::regclass, tgname, tgenabled, pg_get_triggerdef(pg_trigger.oid)
        FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE nspname IN {schemas} AND NOT tgisinternal
    """,
    "policy": """
        SELECT tablename, policyname, permissive, roles::text, cmd, qual, with_check
        FROM pg_policies WHERE schemaname IN {schemas}
    """,
    "function": """
        SELECT pg_proc.oid::regprocedure, pg_get_userbyid(proowner), {rights:proacl}, pg_get_functiondef(pg_proc.oid)
        FROM pg_proc JOIN pg_namespace ON pg_namespace.oid = pronamespace WHERE nspname IN {schemas}
    """,
    "sequence": """
        SELECT seqrelid::regclass, format_type(seqtypid, NULL), seqstart, seqincrement, seqmax, seqmin, seqcache,
            seqcycle
        FROM pg_sequence JOIN pg_class ON pg_class.oid = seqrelid JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE nspname IN {schemas}
    """,
    "default right": """
        SELECT pg_get_userbyid(defaclrole), defaclnamespace::regnamespace, defaclobjtype, {rights:defaclacl}
        FROM pg_default_acl
    """,
    "member": """
        SELECT pg_get_userbyid(roleid), pg_get_userbyid(member)
        FROM pg_auth_members WHERE pg_get_userbyid(roleid) LIKE 'tally%' AND pg_get_userbyid(member) LIKE 'tally%'
    """,
}


def described(connection: psycopg.Connection[Any]) -> list[str]:
    """One line per object: its definition, owner and rights, in a fixed order."""
    lines: list[str] = []
    for part, query in _PARTS.items():
        for row in connection.execute(_completed(query).encode()).fetchall():
            lines.append(f"{part} {' | '.join(map(str, row))}")
    return sorted(lines)


def _completed(query: str) -> str:
    for column, acl in _LISTS.items():
        query = query.replace(f"{{rights:{column}}}", _RIGHTS.replace("{acl}", acl))
    return query.replace("{schemas}", _SCHEMAS)
