-- The name of a table begins with a letter, so the tables of `a`, epoch 1, differ from those of `a_1`.
SELECT printf('DROP TABLE "%w"', name) FROM sqlite_master
WHERE type = 'table' AND substr(name, 1, length(:prefix)) = :prefix
    AND substr(name, length(:prefix) + 1, 1) GLOB '[A-Za-z]'
