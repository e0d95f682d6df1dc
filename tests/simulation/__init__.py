"""Deterministic simulation: N instances of the driver in one operating-system thread, on simulated time, in a world of
plain objects. One seed decides the interleaving, the faults and the answers of every part of the world.

Read in this order: `scheduler` (time and threads), `log`, `group`, `store`, `target`, `workers` (the world's parts),
`instance` (one simulated `penstock run`), `faults` (what goes wrong), `judge` (what must hold), `situations` (what a
campaign must have reached), `campaign` (many schedules, shrinking, the summary).
"""
