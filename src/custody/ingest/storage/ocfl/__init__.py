"""OCFL 1.1 on disk: `open_root` makes or opens a storage root, `root` stores versions, `fixity` reads them again."""
