"""Ways of running an action over prepared events."""
