"""Everything that talks to Kafka and to schema registries."""
