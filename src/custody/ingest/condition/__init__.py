"""How ingest stands: why a job waits, and what the doctor finds."""
