"""Penstock runs actions on Kafka events, on Spark, and loses none of them."""
