-- A worker is known from several runs: keep the first registration and the last sign of life.
INSERT INTO nodes (id, tenant_id, name, status, registered_at, seen_at, hardware, attestation, attestation_type,
    attested_at)
VALUES (:id, :tenant_id, :name, :status, :registered_at, :seen_at, :hardware, :attestation, :attestation_type,
    :attested_at)
ON CONFLICT (id) DO UPDATE SET tenant_id = excluded.tenant_id, name = excluded.name, status = excluded.status,
    registered_at = min(registered_at, excluded.registered_at), seen_at = max(seen_at, excluded.seen_at),
    hardware = excluded.hardware, attestation = coalesce(excluded.attestation, attestation),
    attestation_type = coalesce(excluded.attestation_type, attestation_type),
    attested_at = coalesce(excluded.attested_at, attested_at)
