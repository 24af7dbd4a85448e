SELECT printf('DROP TABLE "%w"', name) FROM sqlite_master
WHERE type = 'table' AND substr(name, 1, length(:prefix)) = :prefix
