"""What is done and answered for page, API and command line alike, and knows the applications."""
