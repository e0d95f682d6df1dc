"""The steps of the schema, oldest first; a step that was released is never edited."""
