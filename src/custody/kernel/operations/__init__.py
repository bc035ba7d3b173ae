"""What may be done, whoever asks: page, API and command line say the same."""
