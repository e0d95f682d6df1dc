"""The eight processors of WhereHows: what each makes of its events."""
