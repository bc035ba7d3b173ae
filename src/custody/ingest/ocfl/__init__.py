"""OCFL 1.1 on disk: `opening` makes or opens a storage root, `root` stores versions, `verify` reads them again."""
