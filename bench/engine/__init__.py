"""Measurements of the window engine on a real broker, with the product run as its users run it."""
