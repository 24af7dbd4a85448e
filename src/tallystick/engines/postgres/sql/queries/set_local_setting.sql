SELECT set_config(%s, %s, true)
