#!/usr/bin/env python3
"""A small, slow, plain reader of packs, written from docs/formats/pack-v1.md and nothing else.

It is there so that the document is checked by something other than the code that it describes. It reads
whole files into memory and never writes to a pack.
"""

import argparse
import hashlib
import json
import pathlib
import re
import struct
import sys

from pack_format import (
    Damage, Index, Manifest, Unsupported, View, crc32c, key_of, key_text, parse_attributes, parse_key, sort_form, zigzag,
)

HEADER_LEN = 4096
FRAME_HEADER_LEN = 40
FRAMED = 0xFFFFFFFFFFFFFFFF
LIVE, DEAD = 0x5A, 0xA5
RECORD, SYNC_MARK, FILLER = 1, 4, 5
COMPLETE, ABANDONED = 1, 2
ACTIVE, SEALED = 1, 2


class Frame:
    """A frame whose header verifies; where it ends is known after `finish`."""

    def __init__(self, segment, offset):
        view, nonce = segment.view, segment.nonce
        head = view.slice(offset, FRAME_HEADER_LEN)
        marker, flag, self.kind, codec, key_kind, crc, key_len, attributes_len, self.body_len, self.sequence, \
            self.time_ns = struct.unpack("<IBBBBIHHQQq", head)
        view.expect(marker, segment.marker, "marker", offset)
        if flag not in (LIVE, DEAD):
            raise view.damage(f"used flag {flag:#x}", offset + 4)
        rest = view.slice(offset + FRAME_HEADER_LEN, key_len + attributes_len)
        place = struct.pack("<Q", offset)
        view.expect(crc, crc32c(nonce, place, head[:4], head[5:8], head[12:], rest), "header checksum", offset + 8)
        if self.kind not in (RECORD, SYNC_MARK, FILLER) or codec != 0:
            raise Unsupported(f"{view.where}: frame at {offset} of kind {self.kind}, codec {codec}")
        self.segment, self.offset, self.header_crc, self.dead = segment, offset, crc, flag == DEAD
        self.key, self.attributes, self.abandoned = None, rest[key_len:], False
        self.body_at = offset + FRAME_HEADER_LEN + len(rest)
        self._check_kind(view, key_kind, rest[:key_len])
        self._pieces, self.end = [], None

    def finish(self):
        """Verifies the body, if it is a record's, and finds the end; returns the frame."""
        view = self.segment.view
        end = self._framed_end(view) if self.body_len == FRAMED else self._plain_end()
        self.end = end + -end % 8
        if any(view.slice(end, self.end - end)):
            raise view.damage("padding is not zero", end)
        if self.kind == RECORD:
            self.body()
        return self

    def _check_kind(self, view, key_kind, key):
        if self.kind == RECORD and (key_kind == 1 or (key_kind == 2 and len(key) == 8)):
            self.key = key if key_kind == 1 else struct.unpack("<Q", key)[0]
        elif self.kind == RECORD or key_kind != 0 or key:
            raise view.damage(f"key kind {key_kind} in a frame of kind {self.kind}", self.offset + 7)
        elif (len(self.attributes), self.body_len) != (8, 0) and self.kind == SYNC_MARK:
            raise view.damage("a sync mark has a body or other attributes than 8 bytes", self.offset + 14)
        elif self.kind == FILLER and (self.attributes or self.body_len == FRAMED):
            raise view.damage("a filler has attributes or a framed body", self.offset + 14)

    def _plain_end(self):
        chunk, length = self.segment.chunk, self.body_len
        return self.body_at + length + (4 * -(-length // chunk) if self.kind == RECORD else 0)

    def _framed_end(self, view):
        at, total, last = self.body_at, 0, False
        while not last:
            word = view.field("<I", at)
            length, last = word & 0x7FFFFFFF, bool(word >> 31)
            if length > self.segment.chunk or not (last or length == self.segment.chunk):
                raise view.damage(f"a piece of {length} bytes", at)
            self._pieces.append((at, length))
            at, total = at + 8 + length, total + length
        wanted = crc32c(struct.pack("<I", self.header_crc), view.slice(at, 12))
        view.expect(view.field("<I", at + 12), wanted, "trailer checksum", at + 12)
        self.body_len, state = view.field("<Q", at), view.field("<I", at + 8)
        if self.body_len != total or state not in (COMPLETE, ABANDONED):
            raise view.damage("length or state in the trailer", at)
        self.abandoned = state == ABANDONED
        return at + 16

    def body(self):
        view, chunk, parts = self.segment.view, self.segment.chunk, []
        for at, length in self._pieces:
            parts.append(view.slice(at + 8, length))
            view.expect(view.field("<I", at + 4), crc32c(view.slice(at, 4), parts[-1]), "piece checksum", at + 4)
        if not self._pieces:
            data, sums = view.slice(self.body_at, self.body_len), self.body_at + self.body_len
            parts = [data[start : start + chunk] for start in range(0, len(data), chunk)]
            for number, part in enumerate(parts):
                place = sums + 4 * number
                view.expect(view.field("<I", place), crc32c(part), f"checksum of chunk {number}", place)
        return b"".join(parts)

    def describe(self):
        body = self.body()
        return {"key": key_text(self.key), "group": self.segment.group, "sequence": self.sequence,
                "time_ns": self.time_ns, "length": len(body), "sha256": hashlib.sha256(body).hexdigest(),
                "attributes": parse_attributes(self.attributes, self.segment.view.where, self.offset)}


class Segment:
    def __init__(self, pack, entry):
        self.entry, self.id, self.nonce = entry, entry["id"], entry["nonce"]
        if entry["group"] >= len(pack.manifest.groups):
            raise Damage("manifest", 72, f"segment {self.id} is of group {entry['group']}, which is not listed")
        self.group = pack.manifest.groups[entry["group"]]
        self.view = view = pack.file(f"segment-{self.id:016x}")
        view.head(b"SEG", zeros=((21, 1), (68, 4)))
        view.closing_crc(0, HEADER_LEN)
        view.expect(view.field("<Q", 24), self.id, "segment id", 24)
        view.expect(view.slice(32, 16), pack.manifest.nonce, "pack nonce", 32)
        view.expect(view.slice(48, 16), self.nonce, "segment nonce", 48)
        name_len, chunk_log2 = view.field("<H", 22), view.field("<B", 20)
        view.expect(view.slice(88, 255), self.group.encode()[:name_len].ljust(255, b"\0"), "group name", 88)
        if not 12 <= chunk_log2 <= 24:
            raise view.damage(f"chunks of 2^{chunk_log2} bytes", 20)
        self.chunk, self.marker = 1 << chunk_log2, view.field("<I", 64)
        self.dead, self.tail, self.indexes, self.torn, self.damages = self._deletes(pack), [], [], None, []
        if entry["state"] == SEALED:
            view.expect(len(view.data), entry["committed"], "length of the sealed segment", 0)
            self.indexes.append(Index(view, b"FTR", self.nonce, self.id))
        else:
            self._scan(self._checkpoints(pack))

    def _deletes(self, pack):
        """{frame offset: (sequence number, time) at which its record died}"""
        generation, dead, offset, sequence, time_ns = self.entry["deletes_generation"], {}, 0, 0, 0
        if generation == 0:
            return dead
        view = pack.file(f"deletes-{self.id:016x}-{generation:016x}")
        view.head(b"DEL")
        end = len(view.data)
        view.closing_crc(0, end)
        view.expect(end, self.entry["deletes_len"], "length", 0)
        view.expect(view.field("<I", end - 4), self.entry["deletes_crc"], "checksum in the manifest", end - 4)
        found = struct.unpack("<QQ16s", view.slice(16, 32))
        view.expect(found, (self.id, generation, pack.manifest.nonce), "segment, generation and nonce", 16)
        view.at = 56
        for _ in range(view.field("<Q", 48)):
            step = view.leb128()
            if step == 0:
                raise view.damage("offsets do not rise")
            offset, sequence, time_ns = offset + step, sequence + zigzag(view.leb128()), time_ns + zigzag(view.leb128())
            dead[offset * 8] = (sequence, time_ns)
        view.expect(view.at, end - 4, "end of the entries")
        return dead

    def _checkpoints(self, pack):
        """Takes checkpoints as far as they verify and join; returns where scanning begins."""
        at = HEADER_LEN
        while True:
            try:
                view = pack.file(f"checkpoint-{self.id:016x}-{at:016x}")
                index = Index(view, b"CKP", self.nonce, self.id)
                all(True for _ in index.entries())
            except (Damage, Unsupported, FileNotFoundError):
                return at
            if index.footer["first"] != at or not at < index.footer["end"] <= self.entry["committed"]:
                return at
            self.indexes.append(index)
            at = index.footer["end"]

    def _scan(self, at):
        while at < len(self.view.data):
            frame = None
            try:
                frame = Frame(self, at)
                at = frame.finish().end
            except Damage as problem:
                later = list(self.frames_behind(at))
                marks = [(struct.unpack("<Q", f.attributes)[0], f.offset) for f in later if f.kind == SYNC_MARK]
                if at >= max([self.entry["committed"]] + [durable for durable, offset in marks if durable <= offset]):
                    self.torn = {"segment": self.id, "offset": at, "length": len(self.view.data) - at}
                    return
                self.damages.append(str(problem))
                at = later[0].offset if later else len(self.view.data)
            # A record whose body alone is damaged hides the versions before it all the same.
            if frame:
                self.tail.append(frame)

    def frames_behind(self, at):
        """Frames with a valid header after the place of damage: the marker is looked for at multiples of 8."""
        needle = struct.pack("<I", self.marker)
        at = self.view.data.find(needle, at + 1)
        while at >= 0:
            try:
                frame = Frame(self, at) if at % 8 == 0 else None
            except Damage:
                frame = None
            if frame:
                yield frame
            at = self.view.data.find(needle, at + 1)

    def walk(self, end):
        """All frames up to `end`, which must be where one ends."""
        at = HEADER_LEN
        while at < end:
            frame = Frame(self, at).finish()
            yield frame
            at = frame.end
        self.view.expect(at, end, "end of the frames", at)

    def newest(self, form):
        """Offset of the newest record with a key, dead or alive, or None."""
        for frame in reversed(self.tail):
            if frame.kind == RECORD and not frame.abandoned and sort_form(frame.key) == form:
                return frame.offset
        return next((found for index in reversed(self.indexes) if (found := index.find(form)) is not None), None)

    def all_records(self):
        """(sort form, offset of the frame) of all records that were not abandoned, dead ones too."""
        for index in self.indexes:
            yield from ((form, offset) for form, offset, _ in index.entries())
        yield from ((sort_form(f.key), f.offset) for f in self.tail if f.kind == RECORD and not f.abandoned)


class Pack:
    def __init__(self, path):
        self.path = pathlib.Path(path)
        names = [re.fullmatch("manifest-([0-9a-f]{16})", entry.name) for entry in self.path.iterdir()]
        generation = max((int(name[1], 16) for name in names if name), default=None)
        if generation is None:
            raise Damage(self.path, 0, "there is no manifest: this is not a pack")
        name = f"manifest-{generation:016x}"
        self.manifest = Manifest(self.file(name).data, name, generation)
        self.segments = [Segment(self, entry) for entry in self.manifest.segments]

    def file(self, name):
        return View((self.path / name).read_bytes(), name)

    def get(self, key):
        """The frame of the record that counts, or None."""
        form, best = sort_form(key), None
        for segment in self.segments:
            offset = segment.newest(form)
            frame = offset and Frame(segment, offset)
            if frame and (best is None or frame.sequence > best.sequence):
                best = frame
        return best.finish() if best and best.offset not in best.segment.dead else None

    def list(self):
        """What counts, in key order, and what is wrong."""
        records, damages = [], {damage for segment in self.segments for damage in segment.damages}
        for form in sorted({form for segment in self.segments for form, _ in segment.all_records()}):
            try:
                frame = self.get(key_of(form))
                records += [frame.describe()] if frame else []
            except Damage as problem:
                damages.add(str(problem))
        return {"generation": self.manifest.generation, "complete": self.manifest.complete, "records": records,
                "torn": [segment.torn for segment in self.segments if segment.torn], "damages": sorted(damages)}


def verify_segment(segment):
    """Walks all frames and the indexes and checks that they, the footer and the manifest agree."""
    view, entry = segment.view, segment.entry
    end = entry["frames_end"] if entry["state"] == SEALED else entry["committed"]
    if segment.tail and not segment.damages:
        end = max(end, segment.tail[-1].end)
    records = [f for f in segment.walk(end) if f.kind == RECORD and not f.abandoned]
    for frame in records:
        parse_attributes(frame.attributes, view.where, frame.offset)
    by_offset = {frame.offset: frame for frame in records}
    view.expect(set(segment.dead) - set(by_offset), set(), "dead offsets without a record", 0)
    order = [(frame.sequence, frame.time_ns) for frame in records]
    if any(a[0] >= b[0] or a[1] > b[1] for a, b in zip(order, order[1:])):
        raise view.damage("sequence numbers or times fall", HEADER_LEN)
    for index in segment.indexes:
        verify_index(index, [f for f in records if index.footer["first"] <= f.offset < index.footer["end"]])
    committed = [f for f in records if f.offset < entry["frames_end"]]
    found = summary(committed) | {"dead": len(segment.dead)}
    view.expect(found, {name: entry[name] for name in found}, "summary of the records", 0)
    dead_len = sum(by_offset[offset].end - offset for offset in segment.dead)
    view.expect(dead_len, entry["dead_len"], "bytes of dead frames", 0)
    return len(records)


def summary(frames):
    return {"records": len(frames), "body_len": sum(f.body_len for f in frames),
            "sequence_low": frames[0].sequence if frames else 0, "sequence_high": frames[-1].sequence if frames else 0,
            "time_first": frames[0].time_ns if frames else 0, "time_last": frames[-1].time_ns if frames else 0}


def verify_index(index, frames):
    wanted = sorted(((sort_form(f.key), -f.offset) for f in frames))
    entries = list(index.entries())
    index.view.expect([(form, -offset) for form, offset, _ in entries], wanted, "index")
    lengths = {f.offset: f.end - f.offset for f in frames}
    for _, offset, length in entries:
        index.view.expect(length in (lengths[offset], None), True, f"length of frame {offset}")
    found = summary(frames)
    index.view.expect({name: index.footer[name] for name in found}, found, "footer")
    newest = dict((form, offset) for form, offset, _ in reversed(entries))
    for form, offset in newest.items():
        index.view.expect(index.find(form), offset, f"lookup of {key_text(key_of(form))}")
    for number, separator in enumerate(index.separators):
        first, before = index.page(number)[0][0], index.page(number - 1)[-1][0] if number else b""
        cut = next((first[:n] for n in range(len(first) + 1) if first[:n] > before), first + b"\0")
        index.view.expect(separator, cut if number else b"", f"separator of page {number}")


def verify(pack):
    """{"ok", "records", "live", …}; walking the frames raises Damage with the first thing that is wrong."""
    total = sum(verify_segment(segment) for segment in pack.segments)
    listed = pack.list()
    for damage in listed["damages"]:
        raise Damage(pack.path, 0, damage)
    return {"ok": True, "segments": len(pack.segments), "records": total, "live": len(listed["records"])}


def run(arguments):
    pack = Pack(arguments.pack)
    if arguments.verb == "list":
        return pack.list()
    if arguments.verb == "verify":
        return verify(pack)
    frame = pack.get(parse_key(arguments.key))
    if frame is None:
        raise KeyError(arguments.key)
    if arguments.out:
        pathlib.Path(arguments.out).write_bytes(frame.body())
    return frame.describe()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("list", "get", "verify"):
        verbs.add_parser(verb).add_argument("pack")
    verbs.choices["get"].add_argument("key", help="id:7, hex:00ff, text:a/b or just a/b")
    verbs.choices["get"].add_argument("--out", help="file for the body")
    try:
        json.dump(run(parser.parse_args()), sys.stdout, indent=1)
        print()
    except (Damage, Unsupported, OSError, KeyError, ValueError) as problem:
        sys.exit(f"pack_reader: {type(problem).__name__}: {problem}")


if __name__ == "__main__":
    main()
