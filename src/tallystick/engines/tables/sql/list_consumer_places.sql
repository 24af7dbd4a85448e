SELECT 'the checkpoint ' || name, store_id, position FROM checkpoints
UNION ALL
SELECT 'the projection ' || projection, store_id, position FROM views
