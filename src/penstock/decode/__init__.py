"""Decoders: raw bytes of records into values, a batch per call."""

from penstock.decode.registry import DECODERS, decoder_for

__all__ = ["DECODERS", "decoder_for"]
