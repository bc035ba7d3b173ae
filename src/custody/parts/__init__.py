"""What each application brings into the kernel, as values; `installed` lists them. Nothing of theirs is imported."""
