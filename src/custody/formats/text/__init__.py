"""JSON, XML and YAML from outside: read strictly, or refused in words."""
