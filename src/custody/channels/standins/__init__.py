"""Local servers that behave as services do which cannot be reached from a test or a demonstration."""
