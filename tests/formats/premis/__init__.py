"""PREMIS of others: what is read, what it is about, what is told as left out."""
