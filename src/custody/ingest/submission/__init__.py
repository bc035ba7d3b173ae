"""What a depositor hands in, until it is a batch."""
