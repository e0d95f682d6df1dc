"""The driver's side: supervisor, dispatcher, lanes, settle, commit."""
