"""A worker as a pipe: fetch → admit → run → settle → leave. No part knows the worker, at most what stands after it."""
