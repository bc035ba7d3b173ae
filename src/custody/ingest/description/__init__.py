"""What is known of an object, as values and as files in its folder."""
