"""Where the bytes of channels lie: a port, and what keeps it on disks and in Azure."""
