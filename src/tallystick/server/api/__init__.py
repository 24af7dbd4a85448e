"""The routes of the API, a file a subject. Each handler says by its first argument what it needs its caller to be."""
