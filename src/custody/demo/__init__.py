"""The demo: the main jobs of this program on one machine, with stand-ins for everybody else's."""
