"""Where archives and tables are stored: a port, and its two kinds, directories and object stores."""
