"""The pages, one module each; importing one registers it."""
