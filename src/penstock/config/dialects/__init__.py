"""Other systems' configurations; each module does nothing but compile to `PipelineSpec`."""
