"""What an archive owes a channel, and how it is paid."""
