"""Values and decisions: no I/O and no clock."""
