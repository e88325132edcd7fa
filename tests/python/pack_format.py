"""Decoders of the parts of a pack that are not frames: manifests, indexes, attributes, checksums.

Written from docs/formats/pack-v1.md and nothing else, as the whole of the Python reader is.
"""

import bisect
import struct

UNIT = 4096
PAGE_UNITS_MAX = 17
RESTART = 16
FOOTER_LEN = 256
LONG_FRAME = 0xFFFFFFFF
SYSTEM_ATTRIBUTES = {1: "kind", 2: "mode", 3: "mtime_ns", 4: "uid", 5: "gid"}
FIXED_TYPES = {1: "<Q", 2: "<q", 3: "<I", 4: "<B"}


class Damage(Exception):
    """Something in a file is not what the format says."""

    def __init__(self, where, offset, what):
        super().__init__(f"{where}: offset {offset}: {what}")


class Unsupported(Exception):
    """A file is of a newer version, or needs something that this reader does not know."""


def _crc_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_CRC_TABLE = _crc_table()


def crc32c(*parts):
    crc = 0xFFFFFFFF
    for part in parts:
        for byte in part:
            crc = _CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def zigzag(value):
    return (value >> 1) ^ -(value & 1)


class View:
    """Bytes of a file with checked access: a length that leads out of them is damage."""

    def __init__(self, data, where, start=0):
        self.data, self.where, self.at = data, where, start

    def damage(self, what, offset=None):
        return Damage(self.where, self.at if offset is None else offset, what)

    def slice(self, offset, length):
        if offset < 0 or length < 0 or offset + length > len(self.data):
            raise self.damage(f"{length} bytes expected, the file has {len(self.data)}", offset)
        return self.data[offset : offset + length]

    def field(self, form, offset):
        return struct.unpack(form, self.slice(offset, struct.calcsize(form)))[0]

    def take(self, length):
        piece = self.slice(self.at, length)
        self.at += length
        return piece

    def next(self, form):
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def text(self, data):
        try:
            return data.decode()
        except UnicodeDecodeError as problem:
            raise self.damage(f"{data!r} is not UTF-8") from problem

    def leb128(self):
        value = 0
        for shift in range(0, 70, 7):
            byte = self.next("<B")
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >= 1 << 64:
                    break
                return value
        raise self.damage("a LEB128 number of more than 64 bits")

    def expect(self, found, wanted, what, offset=None):
        if found != wanted:
            raise self.damage(f"{what} is {found!r}, not {wanted!r}", offset)

    def head(self, magic, start=0, zeros=()):
        """Checks what all files share: magic, version, reserved bytes and required flags."""
        self.expect(self.slice(start, 8), b"\x89STK" + magic + b"\n", "magic", start)
        version, flags = self.field("<H", start + 8), self.field("<I", start + 12)
        if version != 1 or flags:
            raise Unsupported(f"{self.where}: version {version}, required flags {flags:#x}")
        for offset, length in ((10, 2), *zeros):
            self.expect(self.slice(start + offset, length), bytes(length), "reserved bytes", start + offset)

    def closing_crc(self, start, end):
        self.expect(self.field("<I", end - 4), crc32c(self.slice(start, end - 4 - start)), "checksum", end - 4)


def sort_form(key):
    """The bytes by which keys are compared; `key` is bytes or an int."""
    return b"\x02" + key.to_bytes(8, "big") if isinstance(key, int) else b"\x01" + key


def key_of(form):
    if form[:1] == b"\x01" and len(form) <= 65536:
        return form[1:]
    if form[:1] == b"\x02" and len(form) == 9:
        return int.from_bytes(form[1:], "big")
    raise ValueError(f"{form[:20]!r} is not the sort form of a key")


def key_text(key):
    """A key for JSON: id:7, text:… for printable ASCII, else hex:…"""
    if isinstance(key, int):
        return f"id:{key}"
    return f"text:{key.decode()}" if all(0x20 <= byte < 0x7F for byte in key) else f"hex:{key.hex()}"


def parse_key(text):
    kind, _, rest = text.partition(":")
    if kind == "id":
        return int(rest)
    return bytes.fromhex(rest) if kind == "hex" else (rest if kind == "text" else text).encode()


def parse_attributes(data, where, offset):
    """{name: value}; ids of the format get its names, others `#id`, named ones `=name`."""
    view, found = View(data, f"{where}: attributes at {offset}"), {}
    while view.at < len(data):
        ident, kind = view.take(2)
        name = SYSTEM_ATTRIBUTES.get(ident, f"#{ident}")
        if ident == 0:
            length = view.next("<B")
            if length == 0:
                raise view.damage("an attribute name is empty")
            name = "=" + view.text(view.take(length))
        if name in found:
            raise view.damage(f"attribute {name} stands twice")
        if kind in FIXED_TYPES:
            found[name] = view.next(FIXED_TYPES[kind])
        elif kind in (5, 6):
            value = view.take(view.next("<H"))
            found[name] = view.text(value) if kind == 6 else {"hex": value.hex()}
        else:
            raise view.damage(f"unknown attribute type {kind}")
    return found


class Manifest:
    def __init__(self, data, where, generation):
        view = View(data, where)
        view.head(b"MAN")
        view.expect(view.field("<Q", 16), generation, "generation", 16)
        view.expect(view.field("<Q", 24), len(data), "length", 24)
        view.closing_crc(0, len(data))
        self.nonce, self.generation = view.slice(32, 16), generation
        self.groups, self.segments, self.roots, seen = [], [], [], set()
        parsers = {1: self._state, 2: self._groups, 3: self._segments, 4: self._roots}
        view.at = 72
        while view.at < len(data) - 4:
            tag, flags, length = view.next("<H"), view.next("<H"), view.next("<I")
            section = View(view.take(length), f"{where}: section {tag}")
            view.expect(any(view.take(-length % 8)), False, "padding")
            if tag not in parsers and flags & 1:
                raise Unsupported(f"{where}: section {tag} is required and not known here")
            view.expect(tag in seen, False, f"a second section {tag}")
            seen.add(tag)
            parsers.get(tag, lambda _: None)(section)
        view.expect(view.at, len(data) - 4, "end of the sections")
        view.expect({1, 2, 3} - seen, set(), "missing sections")

    def _state(self, view):
        self.complete = view.field("<B", 0) == 1
        self.chunk_log2 = view.field("<B", 1)
        names = ("next_sequence", "last_time_ns", "next_segment", "segment_len")
        self.state = dict(zip(names, struct.unpack("<QqQQ", view.slice(8, 32))))

    def _names(self, view):
        return [view.take(view.next("<H")) for _ in range(view.next("<I"))]

    def _groups(self, view):
        self.groups = [view.text(name) for name in self._names(view)]

    def _roots(self, view):
        self.roots = self._names(view)

    def _segments(self, view):
        count, entry_len = view.next("<I"), view.next("<I")
        if entry_len < 144:
            raise view.damage(f"segment entries of {entry_len} bytes")
        names = ("id", "nonce", "group", "state", "committed", "frames_end", "records", "body_len", "dead",
                 "dead_len", "sequence_low", "sequence_high", "time_first", "time_last", "deletes_generation",
                 "deletes_len", "deletes_crc")
        for _ in range(count):
            values = struct.unpack("<Q16sIB3xQQQQQQQQqqQQI12x", view.take(entry_len)[:144])
            self.segments.append(dict(zip(names, values)))


class Index:
    """Index, top and footer of a sealed segment or of a checkpoint."""

    def __init__(self, view, magic, nonce, segment_id):
        self.view, self.nonce, foot = view, nonce, len(view.data) - FOOTER_LEN
        view.slice(foot, FOOTER_LEN)
        view.head(magic, foot)
        view.closing_crc(foot, len(view.data))
        view.expect(view.field("<I", foot + 20), UNIT, "unit", foot + 20)
        view.expect(view.slice(foot + 24, 16), nonce, "segment nonce", foot + 24)
        view.expect(view.field("<Q", foot + 40), segment_id, "segment id", foot + 40)
        names = ("first", "end", "index", "index_len", "top", "top_len", "filter", "filter_len", "records",
                 "body_len", "sequence_low", "sequence_high", "time_first", "time_last")
        self.footer = dict(zip(names, struct.unpack("<12Q2q", view.slice(foot + 48, 112))))
        self._read_top(self.footer["top"], self.footer["top_len"])

    def _read_top(self, start, length):
        view, top = self.view, View(self.view.slice(start, length), f"{self.view.where}: top at {start}")
        view.expect(start % 8, 0, "offset of the top modulo 8", start)
        top.expect(top.field("<I", 0), crc32c(self.nonce, top.slice(4, length - 4)), "checksum", 0)
        count, separators_len, self.units = struct.unpack("<III", top.slice(4, 12))
        top.expect(16 + 8 * count + separators_len, length, "length")
        top.expect(self.units * UNIT, self.footer["index_len"], "length of the index")
        top.expect(self.footer["index"] % UNIT, 0, "offset of the index modulo 4096")
        ends = struct.unpack(f"<{count}I", top.slice(16, 4 * count))
        self.first_units = struct.unpack(f"<{count}I", top.slice(16 + 4 * count, 4 * count))
        starts, base = (0, *ends[:-1]), 16 + 8 * count
        self.separators = [top.slice(base + a, b - a) for a, b in zip(starts, ends)]

    def page(self, number):
        """Entries of a page: [(sort form, offset of the frame, length of the frame or None)]."""
        first = self.first_units[number]
        last = (*self.first_units[1:], self.units)[number]
        start = self.footer["index"] + first * UNIT
        if not 0 < last - first <= PAGE_UNITS_MAX:
            raise self.view.damage(f"a page of {last - first} units", start)
        data = self.view.slice(start, (last - first) * UNIT)
        page = View(data, f"{self.view.where}: page at {start}")
        page.expect(page.field("<I", 0), crc32c(self.nonce, struct.pack("<I", first), data[4:]), "checksum", 0)
        count, offset_len, length_len = page.field("<H", 4), page.field("<B", 6), page.field("<B", 7)
        if count == 0 or (last - first > 1 and count > 1):
            raise page.damage(f"{count} entries in {last - first} units", 4)
        if offset_len > 5 or length_len > 4:
            raise page.damage(f"offsets of {offset_len} bytes, lengths of {length_len}", 6)
        restarts = (count - 1) // RESTART
        page.at = 17 + 2 * restarts
        offsets = [self._number(page, 12, 5) + self._taken(page, offset_len) for _ in range(count)]
        lengths = [self._number(page, 8, 4) + self._taken(page, length_len) for _ in range(count)]
        if max(offsets) >= 1 << 40 or max(lengths) > LONG_FRAME:
            raise page.damage("an offset or a length outside of any segment", 8)
        forms = self._forms(page, count, [page.field("<H", 17 + 2 * n) for n in range(restarts)])
        entries = [(form, offset * 8, None if length == LONG_FRAME else length * 8)
                   for form, offset, length in zip(forms, offsets, lengths)]
        order = [(form, -offset) for form, offset, _ in entries]
        if any(a >= b for a, b in zip(order, order[1:])):
            raise page.damage("the entries are not in order")
        return entries

    @staticmethod
    def _number(page, offset, length):
        return int.from_bytes(page.slice(offset, length), "little")

    @staticmethod
    def _taken(page, length):
        return int.from_bytes(page.take(length), "little")

    @staticmethod
    def _forms(page, count, restarts):
        """The sort forms, each stored as its difference to the one before or, at a restart, to the first."""
        start, forms = page.at, []
        for number in range(count):
            base = b"" if number == 0 else forms[-1]
            if number and number % RESTART == 0:
                page.expect(page.at - start, restarts[number // RESTART - 1], f"place of the key of entry {number}")
                base = forms[0]
            head = page.next("<B")
            dropped, added = head >> 4, head & 15
            dropped += page.leb128() if dropped == 15 else 0
            added += page.leb128() if added == 15 else 0
            if dropped > len(base):
                raise page.damage(f"{dropped} bytes of a key of {len(base)} go")
            forms.append(base[: len(base) - dropped] + page.take(added))
        page.expect(any(page.data[page.at :]), False, "bytes behind the last key that are not zero")
        return forms

    def entries(self):
        for number in range(len(self.first_units)):
            yield from self.page(number)

    def find(self, form):
        """Offset of the newest frame with the key of this sort form, or None; reads one page."""
        number = bisect.bisect_right(self.separators, form) - 1
        page = self.page(number) if number >= 0 else []
        return next((offset for found, offset, _ in page if found == form), None)
