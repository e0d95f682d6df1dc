"""What a face may ask for: pipelines, dead letters, offsets, connections."""
