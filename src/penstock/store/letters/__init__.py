"""Dead letters as the store keeps them: their rows, how they are found, taken for a replay, closed and forgotten."""
