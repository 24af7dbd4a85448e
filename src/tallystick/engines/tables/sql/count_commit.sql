UPDATE commits SET number = number + 1 WHERE id = 1 RETURNING number
