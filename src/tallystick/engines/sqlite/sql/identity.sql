SELECT store_id, profile FROM store
