"""What `read_pack.py` takes bytes apart with: checked access, checksums, keys, attributes, files
that say all twice.
"""

import struct

UNIT = 4096
SYSTEM_ATTRIBUTES = {1: "kind", 2: "mode", 3: "mtime_ns", 4: "uid", 5: "gid", 6: "names"}
SYSTEM_ATTRIBUTES |= {8: "ctime_ns", 9: "inode", 10: "xattrs", 11: "holes"}
FIXED_TYPES = {1: "<Q", 2: "<q", 3: "<I", 4: "<B"}


class Damage(Exception):
    """Something in a file is not what the format says."""

    def __init__(self, where, offset, what):
        super().__init__(f"{where}: offset {offset}: {what}")


class Unsupported(Exception):
    """A file is of a newer version, or needs something that this reader does not know."""


def _crc_entry(value):
    for _ in range(8):
        value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    return value


_CRC_TABLE = [_crc_entry(value) for value in range(256)]


def crc32c(*parts):
    crc = 0xFFFFFFFF
    for part in parts:
        for byte in part:
            crc = _CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def little(data):
    return int.from_bytes(data, "little")


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


def read_copies(data, name, length_at, parse):
    """(What `parse` makes of the first copy that is whole, damage). Of a file that was cut the
    first says how long half was.
    """
    def read(start, half):
        view = View(data[start : start + half], f"{name}, copy at {start}")
        length = min(view.field("<Q", length_at), len(view.data))
        value = parse(View(view.data[:length], view.where))
        view.expect(any(view.data[length:]), False, "something after the copy", length)
        view.expect(length + -length % UNIT, half, "half of the file", length_at)
        return view.data, value

    stated = View(data, name).field("<Q", length_at) if len(data) >= length_at + 8 else 0
    for half in (len(data) // 2, stated + -stated % UNIT):
        found, problems = [], []
        for start in (0, half):
            try:
                found.append(read(start, half))
            except (Damage, Unsupported) as problem:
                problems.append(problem)
        if len(found) == 2 and found[0][0] != found[1][0]:
            raise Damage(name, half, "both copies are whole and differ")
        if 2 * half != len(data):
            problems.append(Damage(name, 0, f"{len(data)} bytes are not two copies of {half}"))
        if found:
            return found[0][1], [str(problem) for problem in problems]
    raise next((problem for problem in problems if isinstance(problem, Unsupported)), problems[0])
