"""The work on events, without Spark: read, decode, filter, transform, act, and account for every offset."""
