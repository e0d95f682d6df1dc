"""Measurements of Penstock against its bars; `bench/METHOD.md` says how."""
