"""Decoders: raw bytes of records into values, a batch per call."""

from penstock.decode.registry import decoder_for, decoders

__all__ = ["decoder_for", "decoders"]
