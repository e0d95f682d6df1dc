"""Outgoing connections to addresses that users supply: one guard, one URL parser, and clients that obey the guard."""
