"""Who acts, and what an operator has granted: as values."""
