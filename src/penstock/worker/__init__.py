"""The executor's side: the function Spark runs."""
