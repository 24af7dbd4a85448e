-- Several runs may know a worker: the oldest registration and the latest heartbeat stay.
INSERT INTO nodes (id, tenant_id, name, status, registered_at, seen_at, hardware, attestation, attestation_type,
    attested_at)
VALUES (%(id)s, %(tenant_id)s, %(name)s, %(status)s, %(registered_at)s, %(seen_at)s, %(hardware)s, %(attestation)s,
    %(attestation_type)s, %(attested_at)s)
ON CONFLICT (id) DO UPDATE SET tenant_id = excluded.tenant_id, name = excluded.name, status = excluded.status,
    registered_at = least(nodes.registered_at, excluded.registered_at),
    seen_at = greatest(nodes.seen_at, excluded.seen_at),
    hardware = excluded.hardware, attestation = coalesce(excluded.attestation, nodes.attestation),
    attestation_type = coalesce(excluded.attestation_type, nodes.attestation_type),
    attested_at = coalesce(excluded.attested_at, nodes.attested_at)
