"""The steps of a deposit's job, in their order."""
