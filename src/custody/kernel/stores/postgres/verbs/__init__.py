"""What is asked most often, in PostgreSQL's own form: submit, claim, settle, record."""
