"""What foreign material crosses: fetched by `http`, unpacked, run in a `sandbox` with one way out (`egress`)."""
