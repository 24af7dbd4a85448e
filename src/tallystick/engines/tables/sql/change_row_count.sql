UPDATE views SET row_count = row_count + :more WHERE projection = :projection AND epoch = :epoch
