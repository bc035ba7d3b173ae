"""What a confined program looks for and does not find, though it is there outside."""
