SELECT rolname, rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user
