"""Converted and compiled models, kept in a directory for the next start."""

from calculators.kit.model_cache.content_key import key_of
from calculators.kit.model_cache.model_cache import BeingMade, CacheEntry, ModelCache, user_cache

__all__ = ["BeingMade", "CacheEntry", "ModelCache", "key_of", "user_cache"]
