"""Short lists that a store keeps: grants, open kinds, collections, places."""
