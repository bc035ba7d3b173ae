"""The way to a PostgreSQL server: its address, which of several, and whether its word can be relied on."""
