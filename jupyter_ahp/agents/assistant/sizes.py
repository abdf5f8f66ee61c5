"""How much of a model's context a text takes, and how to make it take less."""

from __future__ import annotations


def estimated_tokens(text: str) -> int:
    """Tokens of a text for a small English vocabulary, rather too many than too few."""
    plain = sum(1 for character in text if character.isascii())
    return plain // 3 + 2 * (len(text) - plain) + 8


def shortened(text: str, characters: int) -> str:
    """A text of about that many characters: its beginning and its end."""
    if len(text) <= characters:
        return text
    half = max(characters // 2, 1)
    return f"{text[:half]}\n[…]\n{text[-half:]}"


def cut(text: str, tokens: int) -> str:
    """A text that fits: its beginning and its end."""
    short, size = text, len(text)
    while estimated_tokens(short) > tokens and size > 2:
        size = size * 3 // 4
        short = shortened(text, size)
    return short
