"""munge, by which hosts of a cluster tell who asks: libmunge through ctypes.

A credential is a text that any host with the same key can open, once and for some minutes. It tells the uid
of whoever made it and carries a payload, encrypted under that key; one made for a uid opens for no other.
"""

from __future__ import annotations

import ctypes

from slurmfair.errors import MungeUnavailable, NotAuthentic

LIBRARY = "libmunge.so.2"
UID_RESTRICTION = 9  # munge.h: munge_opt_t
SUCCESS, BAD_LENGTH, NO_MEMORY, SOCKET, TIMEOUT = 0, 3, 5, 6, 7  # munge.h: munge_err_t
INVALID, EXPIRED, REWOUND, REPLAYED, UNAUTHORIZED = 14, 15, 16, 17, 18
CLOCKS = "compare the clocks of both hosts"
WHY = {
    BAD_LENGTH: "is too long for munge; ask for less",
    INVALID: "was made with another key; both hosts need the same /etc/munge/munge.key",
    EXPIRED: f"has expired; ask again, or {CLOCKS}",
    REWOUND: f"was made in the future; {CLOCKS}",
    REPLAYED: "has been used before; ask again",
    UNAUTHORIZED: "is for somebody else",
}


class Munge:
    """The munge of this host. It may be asked by several threads; each call blocks, up to seconds if munged is away."""

    def __init__(self) -> None:
        """Raises MungeUnavailable: libmunge is not installed."""
        try:
            lib = ctypes.CDLL(LIBRARY)
        except OSError as err:
            raise MungeUnavailable(
                f"{LIBRARY} is not on this host; install munge, as on every node of Slurm"
            ) from err
        lib.munge_ctx_create.restype = ctypes.c_void_p
        lib.munge_ctx_create.argtypes = []
        lib.munge_ctx_destroy.argtypes = [ctypes.c_void_p]
        lib.munge_ctx_destroy.restype = None
        lib.munge_ctx_set.argtypes = [ctypes.c_void_p, ctypes.c_int]  # and a value of any type
        lib.munge_ctx_strerror.argtypes = [ctypes.c_void_p]
        lib.munge_ctx_strerror.restype = ctypes.c_char_p
        pointer, number = ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_int)
        uid = ctypes.POINTER(ctypes.c_uint32)
        lib.munge_encode.argtypes = [pointer, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]
        lib.munge_decode.argtypes = [ctypes.c_char_p, ctypes.c_void_p, pointer, number, uid, uid]
        self._lib = lib
        self._free = ctypes.CDLL(None).free
        self._free.argtypes = [ctypes.c_void_p]

    def encode(self, payload: bytes, only_uid: int | None = None) -> bytes:
        """Return a credential of this process's user that carries the payload, for one uid alone if there is one.

        Raises:
            MungeUnavailable: munged does not answer.
            NotAuthentic: the payload is too long (1 MiB with what munge adds).
        """
        out = ctypes.c_void_p()
        context = self._lib.munge_ctx_create()
        try:
            if only_uid is not None:
                self._check(
                    self._lib.munge_ctx_set(context, UID_RESTRICTION, ctypes.c_uint32(only_uid)), context
                )
            self._check(self._lib.munge_encode(ctypes.byref(out), context, payload, len(payload)), context)
            return ctypes.string_at(out)
        finally:
            self._free(out)
            self._lib.munge_ctx_destroy(context)

    def decode(self, credential: bytes) -> tuple[bytes, int]:
        """Return the payload of a credential, and the uid of whoever made it.

        Raises:
            MungeUnavailable: munged does not answer.
            NotAuthentic: it was used before, has expired, is not for us, or is none at all.
        """
        out, size, uid, gid = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_uint32(), ctypes.c_uint32()
        context = self._lib.munge_ctx_create()
        try:
            code = self._lib.munge_decode(credential, context, *map(ctypes.byref, (out, size, uid, gid)))
            self._check(code, context)
            return ctypes.string_at(out, size.value) if out else b"", uid.value
        finally:
            self._free(out)
            self._lib.munge_ctx_destroy(context)

    def _check(self, code: int, context: int) -> None:
        if code == SUCCESS:
            return
        told = (self._lib.munge_ctx_strerror(context) or b"").decode("utf-8", "replace")
        if code in (SOCKET, TIMEOUT, NO_MEMORY):
            raise MungeUnavailable(f"munge does not answer ({told}); see why: systemctl status munge")
        raise NotAuthentic(f"the munge credential {WHY.get(code, f'is broken ({told})')}")
