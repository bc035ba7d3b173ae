"""Chat channels, mirrored into block blobs: searchable, incremental, tiered."""
