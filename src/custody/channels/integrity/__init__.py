"""Whether what is kept is whole, and how it is mended."""
