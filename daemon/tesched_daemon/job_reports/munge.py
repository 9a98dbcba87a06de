"""Senders by munge: libmunge asks the munged of this host, which names a credential's user, and when it was made.

A credential is taken once: munged remembers those that it has seen until they expire. Source: munge(7),
munge_decode(3), munge_ctx(3). Python's own ctypes calls the library, which is wherever Slurm authenticates by munge:
the binding on PyPI (pymunge) has had no release since 2018, and the command `unmunge` takes six times as long (2 ms).
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

LIBRARY = "libmunge.so.2"
#: munge_opt_t: the socket of munged
_SOCKET = 8
_SUCCESS = 0


class MungeError(Exception):
    """A credential was not taken, or munge cannot be used. The text says why."""


@dataclass(kw_only=True)
class Munge:
    """A way to munged. To be used by one thread at a time."""

    #: of munged; empty: the system's own
    socket: str = ""
    _library: ctypes.CDLL = field(init=False)

    def __post_init__(self) -> None:
        """Load the library. Raises MungeError if it is not there."""
        try:
            self._library = ctypes.CDLL(LIBRARY)
        except OSError as error:
            raise MungeError(f"{LIBRARY} cannot be loaded: {error}") from None
        library = self._library
        library.munge_ctx_create.restype = ctypes.c_void_p
        library.munge_ctx_create.argtypes = ()
        # It takes what depends on the option: no argtypes.
        library.munge_ctx_set.restype = ctypes.c_int
        library.munge_strerror.restype = ctypes.c_char_p
        library.munge_strerror.argtypes = (ctypes.c_int,)
        library.munge_ctx_strerror.restype = ctypes.c_char_p
        library.munge_ctx_strerror.argtypes = (ctypes.c_void_p,)
        library.munge_encode.restype = ctypes.c_int
        library.munge_encode.argtypes = (
            *(ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p),
            *(ctypes.c_char_p, ctypes.c_int),
        )
        library.munge_decode.restype = ctypes.c_int
        library.munge_decode.argtypes = (
            *(ctypes.c_char_p, ctypes.c_void_p),
            *(ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_int)),
            *(ctypes.POINTER(ctypes.c_uint32), ctypes.POINTER(ctypes.c_uint32)),
        )
        library.free.restype = None
        library.free.argtypes = (ctypes.c_void_p,)
        library.munge_ctx_destroy.restype = None
        library.munge_ctx_destroy.argtypes = (ctypes.c_void_p,)

    def decoded(self, credential: bytes) -> tuple[int, bytes]:
        """Return the number of the user that made it, and what is in it.

        Raises MungeError for what is no credential, was not made with this site's key, is too old, of the future, or
        was taken before; and if munged does not answer.
        """
        if b"\0" in credential:
            raise MungeError("it has a NUL in it")
        payload, length = ctypes.c_void_p(), ctypes.c_int()
        uid, gid = ctypes.c_uint32(), ctypes.c_uint32()
        results = (ctypes.byref(payload), ctypes.byref(length), ctypes.byref(uid), ctypes.byref(gid))
        with self._context() as context:
            outcome = self._library.munge_decode(credential, context, *results)
            try:
                # One that was taken before, or is too old, is decoded all the same.
                self._check(outcome, context)
                return uid.value, ctypes.string_at(payload, length.value) if length.value > 0 else b""
            finally:
                self._library.free(payload)

    def encoded(self, payload: bytes) -> bytes:
        """Return a credential of this process with that in it. Raises MungeError."""
        credential = ctypes.c_void_p()
        with self._context() as context:
            self._check(self._library.munge_encode(ctypes.byref(credential), context, payload, len(payload)), context)
            try:
                return ctypes.string_at(credential)
            finally:
                self._library.free(credential)

    @contextmanager
    def _context(self) -> Iterator[int]:
        """Give a context for one call: decoding writes into it how the credential was made."""
        context = self._library.munge_ctx_create()
        if not context:
            raise MungeError("munge has no memory")
        try:
            if self.socket:
                path = ctypes.c_char_p(self.socket.encode())
                self._check(self._library.munge_ctx_set(ctypes.c_void_p(context), ctypes.c_int(_SOCKET), path), context)
            yield context
        finally:
            self._library.munge_ctx_destroy(context)

    def _check(self, outcome: int, context: int) -> None:
        if outcome != _SUCCESS:
            said = self._library.munge_ctx_strerror(context) or self._library.munge_strerror(outcome) or b"?"
            raise MungeError(said.decode(errors="replace"))
