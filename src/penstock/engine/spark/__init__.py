"""The Spark context, its JVM and clusters."""
