"""Formats of the trade: values in, values out. A file is read only if it is handed over."""
