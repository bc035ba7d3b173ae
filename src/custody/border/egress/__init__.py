"""The one way out of a sandbox: a proxy that connects to what is granted, and to nothing else."""
