"""Local stand-ins for services that cannot be reached from a demo or a test. They ship with the product."""
