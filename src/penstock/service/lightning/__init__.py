"""Projects of OpenFn Lightning: read, imported, and written again."""
