"""The conformance suite: what every store promises, asked of every store."""
