"""Words of the domain without any I/O: events, errors, durations, secrets, clock."""
