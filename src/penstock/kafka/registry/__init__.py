"""Schema registries: clients of the Confluent API and of the WhereHows dialects, registration, call times."""
