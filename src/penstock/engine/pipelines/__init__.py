"""One pipeline on the driver: its group membership, partitions, planning, outcomes and commits."""
