"""Containers from strangers: honest ones come out whole, hostile ones leave nothing."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import shutil
import stat
import struct
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from custody.border.folder import Folder
from custody.border.unpack.members import UnpackLimits
from custody.border.unpack.unpacker import kind_of, unpack
from custody.errors import BadInput, LeaseLost, Refused
from rig.descriptors import descriptors_below

from .containers import Z, block, deflated, descriptor_of, extra, file_in_tar, long_name, padded, pax, tar_of, zip_of

UNSAFE, CORRUPT = "container.unsafe", "container.corrupt"
LARGE, UNSUPPORTED = "container.too_large", "container.unsupported"
SMALL = UnpackLimits(size=3_000_000, ratio=50, members=100)


def out(folder: Folder) -> dict[str, bytes]:
    below = Path(folder.path)
    return {str(path.relative_to(below)): path.read_bytes() for path in below.rglob("*") if path.is_file()}


def changed(data: bytes, at: int, value: bytes) -> bytes:
    at = at % len(data)
    return data[:at] + value + data[at + len(value) :]


A, B = Z(b"a.txt", b"hello" * 100), Z(b"b.txt", b"world" * 100)
STREAMED = Z(b"a.txt", b"hello" * 100, flags=8)
BOMB = Z(b"bomb", bytes(2_900_000))
FULL, FULL_SHORT = 0xFFFFFFFF, 0xFFFF


def quine_overlap() -> bytes:
    """Two members in the directory that share the bytes of one (CVE-2024-0450)."""
    return zip_of(A, Z(b"a.txt", A.data, central={"offset": 0}, local_name=b"a.txt"))


def overlapping() -> bytes:
    """The second member lies inside the first one's bytes."""
    inner = zip_of(Z(b"inner", b"x" * 50, method=0))[: 30 + 5 + 50]
    first = Z(b"outer", inner + b"tail", method=0)
    return zip_of(first, Z(b"inner", b"x" * 50, method=0, central={"offset": 35}))


def two_readings() -> bytes:
    """A zip in whose comment another one ends, of which the first one is a member."""
    member = Z(b"a", b"x" * 10, method=0, flags=8)
    start = zip_of(member)[:31]
    rest_length = 16 + 46 + 1 + 22
    first = zip_of(member, end={"comment_length": rest_length})[31:]
    outer = Z(b"a", first, method=0, flags=8)
    return start + zip_of(outer)[31:]


HOSTILE_ZIPS: dict[str, tuple[bytes, str]] = {
    # names
    **{
        f"name {name!r}": (zip_of(A, Z(name, b"" if name.endswith(b"/") else b"x")), UNSAFE)
        for name in (
            b"../x",
            b"/etc/x",
            b"a/../../x",
            b"C:\\x",
            b"..\\x",
            b"a\0b",
            b"./x",
            b"a//b",
            b"CON",
            b"x.",
            b"~/x",
            b"",
            b"/",
            b"../",
            b"a/..",
            b"x" * 300,
            b"/".join([b"d"] * 70),
        )
    },
    "the same name twice": (zip_of(A, A), UNSAFE),
    "the same name in other case": (zip_of(A, Z(b"A.TXT")), UNSAFE),
    "the same name in another Unicode form": (
        zip_of(Z("é".encode(), flags=1 << 11), Z("e\u0301".encode(), flags=1 << 11)),
        UNSAFE,
    ),
    "a file that is a folder, too": (zip_of(Z(b"a"), Z(b"a/b")), UNSAFE),
    "a folder that is a file, too": (zip_of(Z(b"a/b"), Z(b"a")), UNSAFE),
    "another name in front": (zip_of(Z(b"a.txt", local_name=b"b.txt")), UNSAFE),
    "a longer name in front": (zip_of(Z(b"a.txt", local_name=b"../../a.txt")), UNSAFE),
    "a name in an unknown encoding": (zip_of(Z(b"\x82\xa0.txt")), UNSAFE),
    "a name that is not UTF-8": (zip_of(Z(b"\xff", flags=1 << 11)), UNSAFE),
    "a second name in an extra field": (
        zip_of(Z(b"a.txt", extra=extra(0x7075, b"\1" + zlib.crc32(b"a.txt").to_bytes(4, "little") + b"b.txt"))),
        UNSAFE,
    ),
    "a second name with a wrong checksum": (zip_of(Z(b"a.txt", extra=extra(0x7075, b"\1\0\0\0\0x"))), UNSAFE),
    # kinds
    **{
        f"a {what}": (zip_of(A, Z(b"x", b"/etc/passwd", mode=kind | 0o777)), UNSAFE)
        for what, kind in (
            ("link", stat.S_IFLNK),
            ("pipe", stat.S_IFIFO),
            ("device", stat.S_IFCHR),
            ("block device", stat.S_IFBLK),
            ("socket", stat.S_IFSOCK),
        )
    },
    "a folder by its mode only": (zip_of(Z(b"x", b"", mode=stat.S_IFDIR)), UNSAFE),
    "a file by its mode only": (zip_of(Z(b"x/", b"", mode=stat.S_IFREG)), UNSAFE),
    "a folder with bytes": (zip_of(Z(b"x/", b"hello")), CORRUPT),
    "encrypted": (zip_of(Z(flags=1)), UNSUPPORTED),
    "strongly encrypted": (zip_of(Z(flags=1 << 6)), UNSUPPORTED),
    "a masked header": (zip_of(Z(flags=1 << 13)), UNSUPPORTED),
    "a patch": (zip_of(Z(flags=1 << 5)), UNSUPPORTED),
    **{
        f"method {method}": (zip_of(Z(method=method, packed=b"hello")), UNSUPPORTED)
        for method in (1, 6, 9, 12, 14, 93, 95, 97, 98, 99)
    },
    # sizes and checksums
    "a wrong checksum": (zip_of(Z(local={"crc": 1}, central={"crc": 1})), CORRUPT),
    "another checksum in front": (zip_of(Z(local={"crc": 1})), UNSAFE),
    "another size in front": (zip_of(Z(local={"size": 4})), UNSAFE),
    "another packed size in front": (zip_of(Z(local={"packed": 4})), UNSAFE),
    "another method in front": (zip_of(Z(local={"method": 0})), UNSAFE),
    "encrypted in front only": (zip_of(Z(local={"flags": 1})), UNSAFE),
    "UTF-8 in front only": (zip_of(Z(local={"flags": 1 << 11})), UNSAFE),
    "a size too small": (zip_of(Z(local={"size": 4}, central={"size": 4})), CORRUPT),
    "a size too large": (zip_of(Z(local={"size": 6}, central={"size": 6})), CORRUPT),
    "stored with two sizes": (zip_of(Z(method=0, local={"size": 4}, central={"size": 4})), CORRUPT),
    "a packed size too small": (zip_of(Z(local={"packed": 3}, central={"packed": 3})), UNSAFE),
    "a packed size too large": (zip_of(Z(local={"packed": 8}, central={"packed": 8}), B), UNSAFE),
    "bytes after the packed data, counted in": (zip_of(Z(packed=deflated(b"hello") + b"more")), UNSAFE),
    "packed data that ends too early": (zip_of(Z(packed=deflated(b"hello" * 100)[:-2], data=b"hello" * 100)), CORRUPT),
    "packed data that is none": (zip_of(Z(packed=b"\xff\xff\xff\xff\xff")), CORRUPT),
    # places
    "bytes before the first member": (zip_of(A, before=b"PK\x03\x04 stub"), UNSAFE),
    "a program before the first member": (zip_of(A, before=b"#!/bin/sh\n"), UNSUPPORTED),
    "bytes before, and offsets as if there were none": (b"MZ stub" + zip_of(A), "container.unsupported"),
    "a member's header before": (zip_of(A, before=zip_of(B)[:50]), UNSAFE),
    "offsets that are not moved along": (zip_of(A, before=b"PK\x03\x04", shift=-4), UNSAFE),
    "bytes between members": (zip_of(Z(after=b"hidden"), B), UNSAFE),
    "bytes before the directory": (zip_of(A, between=b"hidden"), UNSAFE),
    "bytes after the end": (zip_of(A, after=b"more"), CORRUPT),
    "a second zip after the first": (zip_of(A) + zip_of(B), UNSAFE),
    "two ends": (zip_of(A, comment=struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 0, 0, 0, 0, 0)), UNSAFE),
    "two ends that are both right": (two_readings(), UNSAFE),
    "two members in the same bytes": (quine_overlap(), UNSAFE),
    "a member inside another": (overlapping(), UNSAFE),
    "an offset past the end": (zip_of(A, Z(central={"offset": 10_000})), UNSAFE),
    "an offset to nowhere": (zip_of(Z(central={"offset": 5})), UNSAFE),
    "a member that is not there": (zip_of(A, Z(b"x", local={"sign": b"XXXX"})), CORRUPT),
    "more members than listed": (zip_of(A, B, end={"here": 1, "count": 1}), CORRUPT),
    "fewer members than listed": (zip_of(A, end={"here": 2, "count": 2}), CORRUPT),
    "a directory of a wrong size": (zip_of(A, end={"length": 10}), UNSAFE),
    "a directory elsewhere": (zip_of(A, end={"offset": 0}), UNSAFE),
    "a directory entry with a wrong sign": (zip_of(Z(central={"sign": b"PK\x09\x09"})), CORRUPT),
    "no members, but bytes": (zip_of(before=b"PK\x05\x06junk"), UNSAFE),
    "no end": (zip_of(A)[:-22], CORRUPT),
    "cut short": (zip_of(A, B)[:-5], CORRUPT),
    "only a beginning": (zip_of(A)[:40], CORRUPT),
    # disks
    "the second of two disks": (zip_of(A, end={"disk": 1, "first_disk": 1}), UNSUPPORTED),
    "members on other disks": (zip_of(A, end={"here": 0}), UNSUPPORTED),
    "a member on another disk": (zip_of(Z(central={"disk": 3})), UNSUPPORTED),
    # data descriptors
    "a descriptor with another checksum": (zip_of(Z(flags=8, descriptor=descriptor_of(Z(), crc=1))), UNSAFE),
    "a descriptor with another size": (zip_of(Z(flags=8, descriptor=descriptor_of(Z(), size=1))), UNSAFE),
    "a descriptor with a wrong sign": (zip_of(Z(flags=8, descriptor=b"XXXX" + descriptor_of(Z())[4:])), CORRUPT),
    "a descriptor that is missing": (zip_of(Z(flags=8, descriptor=b"")), UNSAFE),
    "a descriptor of an odd length": (zip_of(Z(flags=8, descriptor=bytes(13))), UNSAFE),
    "a descriptor nobody announced": (zip_of(Z(after=descriptor_of(Z()))), UNSAFE),
    "a descriptor and wrong sizes in front": (zip_of(Z(flags=8, local={"size": 9, "packed": 9, "crc": 9})), UNSAFE),
    # zip64
    "two zip64 fields": (
        zip_of(Z(central={"size": FULL}, extra=extra(1, struct.pack("<Q", 5)) + extra(1, struct.pack("<Q", 6)))),
        CORRUPT,
    ),
    "a zip64 size that lies": (zip_of(Z(central={"size": FULL}, extra=extra(1, struct.pack("<Q", 1 << 40)))), LARGE),
    "a zip64 size besides another": (zip_of(Z(extra=extra(1, struct.pack("<QQ", 5, 99)))), UNSAFE),
    "a zip64 field cut short": (zip_of(Z(central={"size": FULL}, extra=extra(1, b"\5\0\0"))), UNSAFE),
    "a zip64 size that is missing": (
        zip_of(Z(central={"size": FULL, "packed": FULL}, extra=extra(1, struct.pack("<Q", 5)))),
        UNSAFE,
    ),
    "a zip64 offset that lies": (zip_of(Z(central={"offset": FULL}, extra=extra(1, struct.pack("<Q", 77)))), UNSAFE),
    "a size of four gigabytes that is none": (zip_of(Z(central={"size": FULL})), LARGE),
    "another zip64 size in front": (
        zip_of(Z(local={"size": FULL, "packed": FULL}, local_extra=extra(1, struct.pack("<QQ", 5, 99)))),
        UNSAFE,
    ),
    "two ends with different counts": (zip_of(A, zip64={"count": 2, "here": 2}), UNSAFE),
    "two ends with different places": (zip_of(A, zip64={"offset": 0}), UNSAFE),
    "a zip64 end elsewhere": (zip_of(A, zip64={"where": 0}), CORRUPT),
    "a zip64 end with a gap": (zip_of(A, zip64={"record": 40}), UNSAFE),
    "a zip64 end past the end": (zip_of(A, zip64={"where": 1 << 50}), CORRUPT),
    "a zip64 end where no file reaches": (zip_of(A, zip64={"where": (1 << 64) - 1}), CORRUPT),
    "a zip64 offset where no file reaches": (
        zip_of(Z(central={"offset": FULL}, extra=extra(1, struct.pack("<Q", (1 << 64) - 1)))),
        UNSAFE,
    ),
    "zip64 on several disks": (zip_of(A, zip64={"disks": 3}), UNSUPPORTED),
    "a zip64 count of a quintillion": (
        zip_of(A, zip64={"count": 1 << 60, "here": 1 << 60}, end={"here": FULL_SHORT, "count": FULL_SHORT}),
        LARGE,
    ),
    "an extra field cut short": (zip_of(Z(extra=b"\1\0\xff\0abc")), CORRUPT),
    "an extra field with a rest": (zip_of(Z(extra=extra(9, b"x") + b"\1")), CORRUPT),
    # too much
    "a bomb": (zip_of(BOMB), LARGE),
    "a bomb that says it is small": (
        zip_of(Z(b"x", b"", packed=deflated(bytes(5_000_000)), local={"size": 9}, central={"size": 9})),
        CORRUPT,
    ),
    "many small bombs": (zip_of(*(Z(b"%d" % n, bytes(100_000)) for n in range(50))), LARGE),
    "too many members": (zip_of(*(Z(b"%d" % n, b"") for n in range(101))), LARGE),
    "too many folders": (zip_of(*(Z(b"%d/" % n, b"", method=0) for n in range(101))), LARGE),
    "a directory of endless comments": (zip_of(A, end={"length": 1 << 30}), LARGE),
}

DEEP = b"/".join([b"d" * 30] * 3)
HOSTILE_TARS: dict[str, tuple[bytes, str]] = {
    **{
        f"name {name!r}": (tar_of(file_in_tar(b"ok", b"x"), file_in_tar(name, b"x")), UNSAFE)
        for name in (b"../x", b"/etc/x", b"a/../../x", b"./../x", b"..", b"a\\b", b"", b"~/x", b"NUL", b"a\nb")
    },
    "folder '/'": (tar_of(block(b"/", kind=b"5")), UNSAFE),
    "folder '..'": (tar_of(block(b"../", kind=b"5")), UNSAFE),
    "folder './/'": (tar_of(block(b".//", kind=b"5")), UNSAFE),
    "a name in an unknown encoding": (tar_of(file_in_tar(b"\xff\xfe", b"x")), UNSAFE),
    "a name by its first half": (tar_of(file_in_tar(b"x", b"x", prefix=b"..")), UNSAFE),
    "a PAX name that leads out": (tar_of(pax((b"path", b"../x")), file_in_tar(b"ok", b"x")), UNSAFE),
    "a PAX name with a NUL": (tar_of(pax((b"path", b"a\0b")), file_in_tar(b"ok", b"x")), UNSAFE),
    "a PAX name that is not UTF-8": (tar_of(pax((b"path", b"\xff")), file_in_tar(b"ok", b"x")), UNSAFE),
    "a GNU name that leads out": (tar_of(long_name(b"../x"), file_in_tar(b"ok", b"x")), UNSAFE),
    "the same name twice": (tar_of(file_in_tar(b"a", b"1"), file_in_tar(b"a", b"2")), UNSAFE),
    "the same name with a dot": (tar_of(file_in_tar(b"a", b"1"), file_in_tar(b"./a", b"2")), UNSAFE),
    "the same name in other case": (tar_of(file_in_tar(b"a", b"1"), file_in_tar(b"A", b"2")), UNSAFE),
    "a file where a folder is": (tar_of(block(b"a/", kind=b"5"), file_in_tar(b"a", b"1")), UNSAFE),
    "a symbolic link": (tar_of(block(b"x", kind=b"2", link=b"/etc/passwd")), UNSAFE),
    "a symbolic link inside": (tar_of(file_in_tar(b"a", b"1"), block(b"x", kind=b"2", link=b"a")), UNSAFE),
    "a link as a folder, and a file in it": (
        tar_of(block(b"x", kind=b"2", link=b"/tmp"), file_in_tar(b"x/y", b"1")),
        UNSAFE,
    ),
    # The chains of folders and links by which tarfile's filter was passed (CVE-2025-4517, -4330, -4138).
    "a chain of long links": (
        tar_of(
            block(DEEP + b"/", kind=b"5"), block(b"l", kind=b"2", link=DEEP), block(b"esc", kind=b"2", link=b"l/../..")
        ),
        UNSAFE,
    ),
    "a hard link through a link": (
        tar_of(block(b"l", kind=b"2", link=b".."), block(b"h", kind=b"1", link=b"l/etc/passwd")),
        UNSAFE,
    ),
    "a hard link": (tar_of(block(b"x", kind=b"1", link=b"/etc/passwd")), UNSAFE),
    "a hard link with bytes": (tar_of(block(b"x", 5, b"1", link=b"a"), padded(b"hello")), UNSAFE),
    "a link by a PAX header": (tar_of(pax((b"linkpath", b"/etc")), block(b"x", kind=b"2")), UNSAFE),
    "a link by a GNU header": (tar_of(long_name(b"/etc", b"K"), block(b"x", kind=b"2")), UNSAFE),
    "a device": (tar_of(block(b"x", kind=b"3")), UNSAFE),
    "a block device": (tar_of(block(b"x", kind=b"4")), UNSAFE),
    "a pipe": (tar_of(block(b"x", kind=b"6")), UNSAFE),
    "a sparse file": (tar_of(block(b"x", 512, b"S"), bytes(512)), UNSAFE),
    "a sparse file by PAX": (tar_of(pax((b"GNU.sparse.major", b"1")), file_in_tar(b"x", b"1")), UNSAFE),
    "a volume label": (tar_of(block(b"x", kind=b"V")), UNSAFE),
    "another volume": (tar_of(block(b"x", kind=b"M")), UNSAFE),
    "an unknown kind": (tar_of(block(b"x", kind=b"Z")), UNSUPPORTED),
    "a folder with bytes": (tar_of(block(b"x/", 5, b"5"), padded(b"hello")), CORRUPT),
    # PAX and GNU headers
    "a PAX header of a megabyte": (tar_of(pax((b"comment", b"x" * 1_000_000)), file_in_tar(b"x", b"1")), UNSAFE),
    "a PAX header of a terabyte": (tar_of(block(b"x", b"\x80" + (1 << 40).to_bytes(11, "big"), b"x")), UNSAFE),
    "two PAX headers": (tar_of(pax((b"path", b"a")), pax((b"path", b"b")), file_in_tar(b"x", b"1")), UNSAFE),
    "a loop of long names": (tar_of(*[long_name(b"a")] * 1000, file_in_tar(b"x", b"1")), UNSAFE),
    "a loop of long links": (tar_of(*[long_name(b"a", b"K")] * 1000, file_in_tar(b"x", b"1")), UNSAFE),
    "a GNU name of a megabyte": (tar_of(long_name(b"a" * 1_000_000), file_in_tar(b"x", b"1")), UNSAFE),
    "a PAX and a GNU name": (tar_of(pax((b"path", b"a")), long_name(b"b"), file_in_tar(b"x", b"1")), UNSAFE),
    "a PAX header for nothing": (tar_of(pax((b"path", b"a"))), CORRUPT),
    "a PAX key twice": (tar_of(pax((b"path", b"a"), (b"path", b"b")), file_in_tar(b"x", b"1")), CORRUPT),
    "a PAX length that lies": (tar_of(block(b"x", 9, b"x"), padded(b"99 path=a"), file_in_tar(b"x", b"1")), CORRUPT),
    "a PAX length of zero": (tar_of(block(b"x", 9, b"x"), padded(b"0 path=ab"), file_in_tar(b"x", b"1")), CORRUPT),
    "a PAX header without a key": (tar_of(block(b"x", 7, b"x"), padded(b"7 abcd\n"), file_in_tar(b"x", b"1")), CORRUPT),
    "two sizes": (tar_of(pax((b"size", b"1024")), file_in_tar(b"x", b"1" * 512)), UNSAFE),
    "a PAX size of nothing over bytes": (tar_of(pax((b"size", b"0")), file_in_tar(b"x", b"1" * 512)), UNSAFE),
    "a negative PAX size": (tar_of(pax((b"size", b"-1")), file_in_tar(b"x", b"1")), CORRUPT),
    "a character set of its own": (tar_of(pax((b"hdrcharset", b"BINARY")), file_in_tar(b"x", b"1")), UNSUPPORTED),
    "a name for all members": (tar_of(pax((b"path", b"a"), kind=b"g"), file_in_tar(b"x", b"1")), UNSAFE),
    "a size for all members": (tar_of(pax((b"size", b"0"), kind=b"g"), file_in_tar(b"x", b"1")), UNSAFE),
    "endless headers for all": (tar_of(*[pax((b"comment", b"a"), kind=b"g")] * 100), UNSAFE),
    # damage
    "a wrong checksum": (tar_of(file_in_tar(b"ok", b"x"), block(b"x", checksum=b"000000\0 ")), CORRUPT),
    "a negative size": (tar_of(file_in_tar(b"ok", b"x"), block(b"x", b"\xff" * 12)), CORRUPT),
    "an unreadable size": (tar_of(file_in_tar(b"ok", b"x"), block(b"x", b"0000000009z\0")), CORRUPT),
    "a size of 2^80": (tar_of(block(b"x", b"\x80" + (1 << 80).to_bytes(11, "big"))), CORRUPT),
    "a size of a petabyte": (tar_of(block(b"x", b"\x80" + (1 << 50).to_bytes(11, "big")), bytes(5000)), CORRUPT),
    "bytes that are missing": (block(b"x", 5000) + bytes(1000), CORRUPT),
    "padding that is missing": (block(b"x", 5) + b"hello", CORRUPT),
    "no end": (tar_of(file_in_tar(b"x", b"1"), end=b""), CORRUPT),
    "half an end": (tar_of(file_in_tar(b"x", b"1"), end=bytes(512)), CORRUPT),
    "an end marked once": (tar_of(file_in_tar(b"x", b"1"), end=bytes(512) + file_in_tar(b"y", b"2")), CORRUPT),
    "members after the end": (tar_of(file_in_tar(b"x", b"1"), end=bytes(1024) + file_in_tar(b"../y", b"2")), UNSAFE),
    # too much
    "too many members": (tar_of(*(file_in_tar(b"%d" % n, b"") for n in range(101))), LARGE),
    "too many bytes": (tar_of(file_in_tar(b"x", bytes(3_100_000))), LARGE),
    "endless zeros after the end": (tar_of(end=bytes(2_000_000)), LARGE),
}

GOOD_TAR = tar_of(file_in_tar(b"a", b"hello"))
HOSTILE_PACKED: dict[str, tuple[bytes, str]] = {
    "a gzip bomb": (gzip.compress(tar_of(file_in_tar(b"x", bytes(2_900_000)))), LARGE),
    "a bzip2 bomb": (bz2.compress(tar_of(file_in_tar(b"x", bytes(2_900_000)))), LARGE),
    "a gzip bomb of padding": (gzip.compress(tar_of(end=bytes(30_000_000))), LARGE),
    "a gzip bomb in a PAX header": (gzip.compress(tar_of(pax((b"comment", bytes(20_000_000))))), UNSAFE),
    "a gzip bomb of headers that are skipped": (gzip.compress(tar_of(*[block(b"./", kind=b"5")] * 20_000)), LARGE),
    "gzip of no tar": (gzip.compress(b"hello" * 1000), CORRUPT),
    "gzip of nothing": (gzip.compress(b""), CORRUPT),
    "gzip of gzip": (gzip.compress(gzip.compress(GOOD_TAR)), CORRUPT),
    "gzip of zip": (gzip.compress(zip_of(A)), CORRUPT),
    "gzip cut short": (gzip.compress(GOOD_TAR)[:-9], CORRUPT),
    "gzip with a wrong checksum": (changed(gzip.compress(GOOD_TAR), -6, b"\xff\xff"), CORRUPT),
    "gzip with a wrong length": (changed(gzip.compress(GOOD_TAR), -2, b"\xff\xff"), CORRUPT),
    "gzip with something after it": (gzip.compress(GOOD_TAR) + b"hidden", UNSAFE),
    "gzip that is damaged": (changed(gzip.compress(os.urandom(5000) + GOOD_TAR), 20, bytes(20)), CORRUPT),
    "bzip2 cut short": (bz2.compress(GOOD_TAR)[:-9], CORRUPT),
    "bzip2 that is damaged": (changed(bz2.compress(GOOD_TAR), 30, b"\xff" * 8), CORRUPT),
    "bzip2 with something after it": (bz2.compress(GOOD_TAR) + b"hidden", UNSAFE),
    "only the beginning of gzip": (b"\x1f\x8b", CORRUPT),
    "only the beginning of bzip2": (b"BZh9", CORRUPT),
}
OTHERS: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", UNSUPPORTED),
    "text": (b"hello", UNSUPPORTED),
    "7z": (b"7z\xbc\xaf\x27\x1c" + bytes(600), UNSUPPORTED),
    "rar": (b"Rar!\x1a\x07\x01\x00" + bytes(600), UNSUPPORTED),
    "xz": (b"\xfd7zXZ\0" + bytes(600), UNSUPPORTED),
}
HOSTILE = {
    **{f"zip: {name}": case for name, case in HOSTILE_ZIPS.items()},
    **{f"tar: {name}": case for name, case in HOSTILE_TARS.items()},
    **{f"tar.gz: {name}": (gzip.compress(data), code) for name, (data, code) in HOSTILE_TARS.items()},
    **HOSTILE_PACKED,
    **OTHERS,
}


def test_the_tables_are_as_long_as_promised() -> None:
    assert len(HOSTILE_ZIPS) + len(HOSTILE_TARS) + len(HOSTILE_PACKED) >= 60


@pytest.mark.proves("H4")
@pytest.mark.parametrize(("data", "code"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_container_is_refused_and_leaves_nothing(data: bytes, code: str, folder: Folder) -> None:
    outside = Path(folder.path).parent
    before = sorted(str(path) for path in outside.rglob("*"))
    descriptors = len(descriptors_below(outside))

    with pytest.raises(BadInput) as caught:
        unpack(io.BytesIO(data), folder, SMALL)

    assert caught.value.code == code
    assert str(caught.value).isprintable()
    assert folder.is_empty()
    assert sorted(str(path) for path in outside.rglob("*")) == before
    assert len(descriptors_below(outside)) == descriptors


def test_a_refusal_says_which_of_the_rules_was_broken(folder: Folder) -> None:
    for data, word in ((overlapping(), "overlaps"), (quine_overlap(), "overlaps"), (two_readings(), "two ends")):
        with pytest.raises(BadInput, match=word):
            unpack(io.BytesIO(data), folder, SMALL)


@pytest.mark.proves("H4")
@pytest.mark.parametrize("cut", range(1, 60))
def test_a_container_cut_anywhere_is_refused(cut: int, folder: Folder) -> None:
    for whole in (zip_of(A, B), GOOD_TAR, gzip.compress(GOOD_TAR), bz2.compress(GOOD_TAR)):
        with pytest.raises(BadInput):
            unpack(io.BytesIO(whole[: len(whole) * cut // 60]), folder, SMALL)
        assert folder.is_empty()


@pytest.mark.parametrize(
    ("data", "member"),
    [
        (zip_of(A, Z(b"../\x1b[31m")), "../\\x1b[31m"),
        (zip_of(A, Z(b"b.txt", local={"crc": 1}, central={"crc": 1})), "b.txt"),
        (tar_of(file_in_tar(b"a", b""), block(b"link", kind=b"2")), "link"),
        (tar_of(file_in_tar(b"a", b""), block(b"short", 5000), bytes(100)), "short"),
    ],
)
def test_a_refusal_names_the_member(data: bytes, member: str, folder: Folder) -> None:
    with pytest.raises(BadInput) as caught:
        unpack(io.BytesIO(data), folder, SMALL)
    assert caught.value.facts["member"] == member


def with_tarfile(mode: str, form: int) -> Callable[[Path, Path], None]:
    def pack(source: Path, target: Path) -> None:
        with tarfile.open(target, mode, format=form) as made:  # type: ignore[call-overload]
            made.add(source, ".")

    return pack


class Pipe(io.RawIOBase):
    """What cannot be seeked in, so that zipfile writes data descriptors."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return int(self.file.write(data))


def zip_to_pipe(source: Path, target: Path) -> None:
    with target.open("wb") as file, zipfile.ZipFile(Pipe(file), "w", zipfile.ZIP_DEFLATED) as made:  # type: ignore[arg-type]
        for path in sorted(source.rglob("*")):
            made.write(path, path.relative_to(source))


def zip64(source: Path, target: Path) -> None:
    with zipfile.ZipFile(target, "w") as made:
        for path in sorted(source.rglob("*")):
            if path.is_dir():
                made.write(path, path.relative_to(source))
            else:
                with made.open(str(path.relative_to(source)), "w", force_zip64=True) as member:
                    member.write(path.read_bytes())


def zip64_to_pipe(source: Path, target: Path) -> None:
    with target.open("wb") as file, zipfile.ZipFile(Pipe(file), "w", zipfile.ZIP_DEFLATED) as made:  # type: ignore[arg-type]
        for path in sorted(source.rglob("*")):
            if path.is_file():
                with made.open(str(path.relative_to(source)), "w", force_zip64=True) as member:
                    member.write(path.read_bytes())


def shell(command: str) -> Callable[[Path, Path], None]:
    def pack(source: Path, target: Path) -> None:
        program = command.split()[0]
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
        subprocess.run(["/bin/sh", "-c", command.replace("OUT", str(target))], cwd=source, check=True)

    return pack


def by_make_archive(form: str) -> Callable[[Path, Path], None]:
    def pack(source: Path, target: Path) -> None:
        shutil.move(shutil.make_archive(str(target), form, source), target)

    return pack


PROGRAMS: dict[str, Callable[[Path, Path], None]] = {
    **{form: by_make_archive(form) for form in ("zip", "tar", "gztar", "bztar")},
    "ustar": with_tarfile("w:gz", tarfile.USTAR_FORMAT),
    "gnu": with_tarfile("w:bz2", tarfile.GNU_FORMAT),
    "pax": with_tarfile("w", tarfile.PAX_FORMAT),
    "zip to a pipe": zip_to_pipe,
    "zip64": zip64,
    "zip64 to a pipe": zip64_to_pipe,
    "GNU tar": shell("tar -cf OUT ."),
    "GNU tar, posix": shell("tar --format=posix -czf OUT ."),
    "GNU tar, v7": shell("tar --format=v7 -cf OUT plain.txt folder/small"),
    "Info-ZIP": shell("zip -qr - . > OUT"),
    "Info-ZIP to a pipe": shell("zip -qr - . | cat > OUT"),
    "Info-ZIP, zip64": shell("zip -fz -qr - . > OUT"),
    "gzip twice": shell("tar -cf ../t . && head -c 700 ../t | gzip > OUT && tail -c +701 ../t | gzip >> OUT"),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_honest_programs_pack_comes_out_the_same(program: str, folder: Folder, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "folder" / "empty").mkdir(parents=True)
    (source / "plain.txt").write_bytes(b"hello" * 5000)
    (source / "folder" / "random").write_bytes(os.urandom(700_000))
    (source / "folder" / "small").write_bytes(b"x")
    (source / "folder" / "nothing").write_bytes(b"")
    (source / "folder" / ("long" * 22 + ".txt")).write_bytes(b"a long name")
    (source / "folder" / "deep").mkdir()
    (source / "folder" / "deep" / "été 日本.txt").write_bytes(b"not ASCII")
    os.chmod(source / "plain.txt", 0o4777)
    target = tmp_path / "container"
    PROGRAMS[program](source, target)

    unpacked = unpack(target, folder, UnpackLimits(encoding="utf-8"))

    found = out(folder)
    for name, data in found.items():
        assert (source / name).read_bytes() == data
    assert len(found) == (2 if "v7" in program else 6)
    assert unpacked.files == len(found)
    assert unpacked.size == sum(map(len, found.values()))
    assert stat.S_IMODE(Path(folder.path, "plain.txt").stat().st_mode) & 0o7137 == 0


GOOD: dict[str, tuple[bytes, dict[str, bytes]]] = {
    "an empty zip": (zip_of(), {}),
    "an empty tar": (bytes(10240), {}),
    "a zip with a comment": (zip_of(A, comment=b"made by hand"), {"a.txt": A.data}),
    "a stored member": (zip_of(Z(b"x", b"hello", method=0)), {"x": b"hello"}),
    "members in another order": (zip_of(B, A), {"a.txt": A.data, "b.txt": B.data}),
    "a descriptor without a sign": (
        zip_of(Z(b"x", b"hello", flags=8, descriptor=descriptor_of(Z(), "<III"))),
        {"x": b"hello"},
    ),
    "a long descriptor": (zip_of(Z(b"x", b"hello", flags=8, descriptor=descriptor_of(Z(), "<4sIQQ"))), {"x": b"hello"}),
    "a long descriptor without a sign": (
        zip_of(Z(b"x", b"hello", flags=8, descriptor=descriptor_of(Z(), "<IQQ"))),
        {"x": b"hello"},
    ),
    "a zip64 end": (zip_of(A, zip64=True), {"a.txt": A.data}),
    "a zip64 end that is needed": (
        zip_of(A, zip64=True, end={"here": FULL_SHORT, "count": FULL_SHORT, "length": FULL, "offset": FULL}),
        {"a.txt": A.data},
    ),
    "zip64 fields": (
        zip_of(Z(b"x", b"hello", central={"size": FULL, "offset": FULL}, extra=extra(1, struct.pack("<QQ", 5, 0)))),
        {"x": b"hello"},
    ),
    "a name in an extra field": (
        zip_of(
            Z(
                b"\x82.txt",
                b"x",
                extra=extra(0x7075, b"\1" + zlib.crc32(b"\x82.txt").to_bytes(4, "little") + b"\xc3\xa9"),
            )
        ),
        {"é": b"x"},
    ),
    "a folder that comes twice": (
        zip_of(Z(b"d/", b"", method=0), Z(b"d/x"), Z(b"d/", b"", method=0)),
        {"d/x": b"hello"},
    ),
    "an aligned member": (zip_of(Z(b"x", b"hello", local_extra=b"\0\0\0")), {"x": b"hello"}),
    "a name in UTF-8": (zip_of(Z("日本".encode(), b"x", flags=1 << 11)), {"日本": b"x"}),
    "a tar of git": (tar_of(pax((b"comment", b"1234"), kind=b"g"), file_in_tar(b"x", b"1")), {"x": b"1"}),
    "a tar with times": (tar_of(pax((b"mtime", b"1.5"), (b"path", b"long")), file_in_tar(b"x", b"1")), {"long": b"1"}),
    "a tar by its dot": (tar_of(block(b"./", kind=b"5"), file_in_tar(b"./d/x", b"1")), {"d/x": b"1"}),
    "a name in two halves": (tar_of(file_in_tar(b"x", b"1", prefix=b"a/b")), {"a/b/x": b"1"}),
    "GNU, where the second half is something else": (
        tar_of(file_in_tar(b"x", b"1", prefix=b"0123", magic=b"ustar  \0")),
        {"x": b"1"},
    ),
    "a GNU name": (tar_of(long_name(b"n" * 200), file_in_tar(b"n" * 100, b"1")), {"n" * 200: b"1"}),
    "a binary size": (tar_of(file_in_tar(b"x", b"1", size=b"\x80" + (1).to_bytes(11, "big"))), {"x": b"1"}),
    "the same size twice": (tar_of(pax((b"size", b"1")), file_in_tar(b"x", b"1")), {"x": b"1"}),
    "a folder of the oldest kind": (
        tar_of(block(b"d/", kind=b"\0", magic=bytes(8)), file_in_tar(b"d/x", b"1")),
        {"d/x": b"1"},
    ),
    "gzip with zeros after it": (gzip.compress(GOOD_TAR) + bytes(1000), {"a": b"hello"}),
    "bzip2 in two parts": (bz2.compress(GOOD_TAR[:700]) + bz2.compress(GOOD_TAR[700:]), {"a": b"hello"}),
    "zip in zip": (zip_of(Z(b"inner.zip", zip_of(A))), {"inner.zip": zip_of(A)}),
}


@pytest.mark.parametrize(("data", "expected"), GOOD.values(), ids=GOOD)
def test_odd_but_honest_containers_come_out(data: bytes, expected: dict[str, bytes], folder: Folder) -> None:
    unpack(io.BytesIO(data), folder, SMALL)
    assert out(folder) == expected


def test_names_without_an_encoding_are_read_if_the_collection_gives_one(folder: Folder) -> None:
    data = zip_of(Z("日本.txt".encode("shift_jis"), b"x"))
    unpack(io.BytesIO(data), folder, UnpackLimits(encoding="shift_jis"))
    assert out(folder) == {"日本.txt": b"x"}


def test_what_the_depositor_said_must_be_what_it_is(folder: Folder) -> None:
    assert kind_of(io.BytesIO(gzip.compress(GOOD_TAR))) == "tar.gz"
    with pytest.raises(BadInput) as caught:
        unpack(io.BytesIO(GOOD_TAR), folder, kind="zip")
    assert caught.value.code == CORRUPT
    assert unpack(io.BytesIO(GOOD_TAR), folder, kind="tar").kind == "tar"


def test_a_folder_with_something_in_it_is_left_alone(folder: Folder) -> None:
    Path(folder.path, "mine").write_bytes(b"")
    with pytest.raises(Refused) as caught:
        unpack(io.BytesIO(GOOD_TAR), folder)
    assert caught.value.code == "folder.not_empty"
    assert os.listdir(folder.path) == ["mine"]


def test_stopping_leaves_nothing(folder: Folder) -> None:
    data = tar_of(*(file_in_tar(b"%d" % n, bytes(1000)) for n in range(10)))
    calls = iter([False] * 5 + [True])
    with pytest.raises(Refused) as caught:
        unpack(io.BytesIO(data), folder, cancel=lambda: next(calls))
    assert caught.value.code == "unpack.cancelled"
    assert folder.is_empty()

    def lost() -> bool:
        raise LeaseLost("the token is no longer current")

    with pytest.raises(LeaseLost):
        unpack(io.BytesIO(data), folder, cancel=lost)
    assert folder.is_empty()


def test_every_file_and_folder_is_on_the_disk_before_it_returns(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    unpack(io.BytesIO(tar_of(file_in_tar(b"a/b", b"1"), block(b"c/", kind=b"5"))), folder)
    assert {os.path.relpath(path, folder.path) for path in synced} == {".", "a", "a/b"}


MEASURED = """
import resource, sys
from custody.border.folder import Folder
from custody.border.unpack.members import UnpackLimits
from custody.border.unpack.unpacker import unpack
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with Folder(sys.argv[2]) as folder:
    unpack(sys.argv[1], folder, UnpackLimits(ratio=10**8))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize(
    "pack",
    [
        lambda: zip_of(Z(b"x", bytes(60_000_000))),
        lambda: gzip.compress(tar_of(file_in_tar(b"x", bytes(60_000_000))), 1),
        lambda: bz2.compress(tar_of(file_in_tar(b"x", bytes(60_000_000))), 1),
    ],
    ids=["zip", "tar.gz", "tar.bz2"],
)
def test_memory_does_not_grow_with_what_comes_out(pack: Callable[[], bytes], folder: Folder, tmp_path: Path) -> None:
    (tmp_path / "container").write_bytes(pack())
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(tmp_path / "container"), folder.path],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=True,
    )
    assert int(done.stdout) < 16_000  # kilobytes
