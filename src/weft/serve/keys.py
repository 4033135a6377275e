"""Keys of clients, compared in constant time: neither a near miss nor the number of keys shows in the time."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence

from weft.serve.errors import Problem


class Keys:
    """The keys that a server accepts; without any, it accepts every request."""

    def __init__(self, keys: Sequence[str] = ()) -> None:
        self._digests = [_digest(key) for key in keys]

    def __bool__(self) -> bool:
        return bool(self._digests)

    def accepts(self, key: str) -> bool:
        """Return whether this is one of the keys; all of them are compared, as digests of the same length."""
        given, known = _digest(key), False
        for digest in self._digests:
            known |= hmac.compare_digest(given, digest)
        return known

    def check(self, headers: Mapping[str, str], in_body: str = "") -> None:
        """Refuse a request without a known key, in a header or (as LibreTranslate's clients do) in the body."""
        given = in_body or headers.get("x-api-key", "")
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token:
            given = token.strip()
        if self and not self.accepts(given):
            what = "this key is not known" if given else "this server needs a key"
            todo = "send the header Authorization: Bearer KEY"
            raise Problem(401, what, "header Authorization", todo, {"www-authenticate": "Bearer"})


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
