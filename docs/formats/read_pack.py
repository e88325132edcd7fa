#!/usr/bin/env python3
"""A small, slow, plain reader of packs, written from docs/formats/pack-v1.md and nothing else.

It is there so that the document is checked by something other than the code that it describes. It
reads whole files into memory and never writes to a pack.
"""

import argparse
import bisect
import hashlib
import json
import os
import pathlib
import re
import stat
import struct
import sys

from pack_bytes import (UNIT, Damage, Unsupported, View, crc32c, key_of, key_text, little, parse_attributes, parse_key,
                        read_copies, sort_form, zigzag)

PAGE_UNITS_MAX = 17
RESTART = 16
FOOTER_LEN = 256
LONG_FRAME = 0xFFFFFFFF


class Manifest:
    """One copy of a manifest."""

    def __init__(self, view, generation):
        data, where = view.data, view.where
        view.closing_crc(0, len(data))
        view.head(b"MAN")
        view.expect(view.field("<Q", 16), generation, "generation", 16)
        view.expect(view.field("<Q", 24), len(data), "length", 24)
        self.nonce, self.generation = view.slice(32, 16), generation
        self.edition = (generation, view.field("<I", 48))
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
        self.state = dict(zip(("next_sequence", "last_time_ns", "next_segment", "segment_len"),
                              struct.unpack("<QqQQ", view.slice(8, 32))))

    def _names(self, view):
        return [view.take(view.next("<H")) for _ in range(view.next("<I"))]

    def _groups(self, view):
        self.groups = [view.text(name) for name in self._names(view)]

    def _roots(self, view):
        self.roots = self._names(view)

    def _segments(self, view):
        count, entry_len = view.next("<I"), view.next("<I")
        if entry_len < 160:
            raise view.damage(f"segment entries of {entry_len} bytes")
        names = ("id", "nonce", "group", "state", "committed", "frames_end", "records", "body_len", "dead",
                 "dead_len", "sequence_low", "sequence_high", "time_first", "time_last", "deletes_generation",
                 "deletes_len", "deletes_crc", "marker", "by_key", "chunk_log2", "last_frame", "last_crc", "mark_crc")
        for _ in range(count):
            entry = dict(zip(names, struct.unpack("<Q16sIB3xQQQQQQQQqqQQIIBB6xQII", view.take(entry_len)[:160])))
            if entry["marker"] == 0 or not 12 <= entry["chunk_log2"] <= 24:
                raise view.damage(f"segment {entry['id']} has no marker, or chunks of 2^{entry['chunk_log2']} bytes")
            self.segments.append(entry)


class Index:
    """Index, top and footer of a sealed segment or of a checkpoint."""

    def __init__(self, view, magic, nonce, segment_id):
        self.view, self.nonce, foot = view, nonce, len(view.data) - FOOTER_LEN
        view.slice(foot, FOOTER_LEN)
        view.closing_crc(foot, len(view.data))
        view.head(magic, foot)
        view.expect(view.field("<I", foot + 20), UNIT, "unit", foot + 20)
        view.expect(view.slice(foot + 24, 16), nonce, "segment nonce", foot + 24)
        view.expect(view.field("<Q", foot + 40), segment_id, "segment id", foot + 40)
        names = ("first", "end", "index", "index_len", "top", "top_len", "filter", "filter_len", "records",
                 "body_len", "sequence_low", "sequence_high", "time_first", "time_last", "last_frame", "last_crc",
                 "mark_crc")
        self.footer = dict(zip(names, struct.unpack("<12Q2qQII", view.slice(foot + 48, 128))))
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
        count, offset_len, widths = page.field("<H", 4), page.field("<B", 6), page.field("<B", 7)
        length_len, contents = widths & 15, widths >> 4
        if count == 0 or (last - first > 1 and count > 1):
            raise page.damage(f"{count} entries in {last - first} units", 4)
        if offset_len > 5 or length_len > 4 or contents > 2:
            raise page.damage(f"offsets of {offset_len} bytes, lengths of {length_len}, contents {contents}", 6)
        restarts = (count - 1) // RESTART
        page.at = 17 + 2 * restarts
        offsets = [little(page.slice(12, 5)) + little(page.take(offset_len)) for _ in range(count)]
        lengths = [little(page.slice(8, 4)) + little(page.take(length_len)) for _ in range(count)]
        # Which of them are not files; not needed here.
        others = little(page.take((count + 7) // 8)) if contents == 2 else 0
        if others >> count:
            raise page.damage("contents of more entries than there are", 7)
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
    def _forms(page, count, restarts):
        """The sort forms, each stored as its difference to the one before or, at a restart, to the
        first.
        """
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
        page.expect(any(page.data[page.at :]), False, "bytes after the last key that are not zero")
        return forms

    def entries(self):
        for number in range(len(self.first_units)):
            yield from self.page(number)

    def find(self, form):
        """Offset of the newest frame with the key of this sort form, or None; reads one page."""
        number = bisect.bisect_right(self.separators, form) - 1
        page = self.page(number) if number >= 0 else []
        return next((offset for found, offset, _ in page if found == form), None)


# Frames, segments, and the pack as a whole.

HEADER_LEN, FRAME_HEADER_LEN = 4096, 40
FRAMED = 0xFFFFFFFFFFFFFFFF
LIVE, DEAD = 0x5A, 0xA5
RECORD, BATCH_RECORD, BATCH_END, SYNC_MARK, FILLER, DELETION, BATCH_DELETION = 1, 2, 3, 4, 5, 6, 7
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
        wanted = crc32c(nonce, struct.pack("<Q", offset), head[:4], head[5:8], head[12:], rest)
        view.expect(crc, wanted, "header checksum", offset + 8)
        if not RECORD <= self.kind <= BATCH_DELETION or codec != 0:
            raise Unsupported(f"{view.where}: frame at {offset} of kind {self.kind}, codec {codec}")
        self.in_batch = self.kind in (BATCH_RECORD, BATCH_DELETION)
        self.kind = {BATCH_RECORD: RECORD, BATCH_DELETION: DELETION}.get(self.kind, self.kind)
        self.segment, self.offset, self.header_crc, self.dead = segment, offset, crc, flag == DEAD
        self.key, self.attributes, self.abandoned = None, rest[key_len:], False
        self.body_at, self._pieces, self.end = offset + FRAME_HEADER_LEN + len(rest), [], None
        self._check_kind(view, key_kind, rest[:key_len])

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
        if self.kind in (RECORD, DELETION) and (key_kind == 1 or (key_kind == 2 and len(key) == 8)):
            self.key = key if key_kind == 1 else struct.unpack("<Q", key)[0]
        elif self.kind in (RECORD, DELETION) or key_kind != 0 or key:
            raise view.damage(f"key kind {key_kind} in a frame of kind {self.kind}", self.offset + 7)
        elif (len(self.attributes), self.body_len) != (24, 0) and self.kind == SYNC_MARK:
            raise view.damage("a sync mark has a body or other attributes than 24 bytes", self.offset + 14)
        elif (len(self.attributes), self.body_len) != (20, 0) and self.kind == BATCH_END:
            raise view.damage("the end of a batch has a body or other attributes than 20 bytes", self.offset + 14)
        elif self.kind == FILLER and (self.attributes or self.body_len == FRAMED):
            raise view.damage("a filler has attributes or a framed body", self.offset + 14)
        if self.kind == DELETION and (self.attributes or self.body_len):
            raise view.damage("a deletion has attributes or a body", self.offset + 14)

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
            wanted = crc32c(view.slice(at, 4), parts[-1]) ^ self.mask(len(parts) - 1)
            view.expect(view.field("<I", at + 4), wanted, "piece checksum", at + 4)
        if not self._pieces:
            data, sums = view.slice(self.body_at, self.body_len), self.body_at + self.body_len
            parts = [data[start : start + chunk] for start in range(0, len(data), chunk)]
            for number, part in enumerate(parts):
                place = sums + 4 * number
                wanted = crc32c(part) ^ self.mask(number)
                view.expect(view.field("<I", place), wanted, f"checksum of chunk {number}", place)
        return b"".join(parts)

    def mask(self, number):
        """What binds a chunk or a piece to this record and to its number in it."""
        return crc32c(self.segment.pack_nonce, struct.pack("<QQ", self.sequence, number))

    def digest(self):
        """What stands for this frame, which is finished, in the checksum of its batch."""
        view, sums = self.segment.view, b""
        if self._pieces:
            sums = b"".join(view.slice(at + 4, 4) for at, _ in self._pieces)
            at, length = self._pieces[-1]
            sums += view.slice(at + 8 + length + 12, 4)
        elif self.kind == RECORD:
            sums = view.slice(self.body_at + self.body_len, 4 * -(-self.body_len // self.segment.chunk))
        return crc32c(struct.pack("<I", self.header_crc), sums)

    def describe(self):
        body = self.body()
        return {"key": key_text(self.key), "group": self.segment.group, "sequence": self.sequence,
                "time_ns": self.time_ns, "length": len(body), "sha256": hashlib.sha256(body).hexdigest(),
                "attributes": parse_attributes(self.attributes, self.segment.view.where, self.offset)}


def check_batch(members, end):
    """Raises Damage unless `end` is the end of a batch of these frames, which are finished."""
    view, found = end.segment.view, [frame.sequence for frame in members]
    first, count, crc = struct.unpack("<QQI", end.attributes)
    view.expect(found, list(range(first, first + len(found))), "sequence numbers of a batch", end.offset)
    view.expect(count, len(found), "length of a batch", end.offset)
    digests = struct.pack(f"<{len(members)}I", *(frame.digest() for frame in members))
    view.expect(crc, crc32c(digests), "checksum over the members of a batch", end.offset)


class Segment:
    def __init__(self, pack, entry):
        self.entry, self.id, self.nonce, self.pack_nonce = entry, entry["id"], entry["nonce"], pack.manifest.nonce
        if entry["group"] >= len(pack.manifest.groups):
            raise Damage("manifest", 72, f"segment {self.id} is of group {entry['group']}, which is not listed")
        self.group = pack.manifest.groups[entry["group"]]
        self.view = view = pack.file(f"segment-{self.id:016x}")
        # What is needed to read frames stands in the manifest, too.
        self.chunk, self.marker, self.by_key = 1 << entry["chunk_log2"], entry["marker"], entry["by_key"] == 1
        self.indexes, self.tail, self.torn, self.damages, self.lost = [], [], None, [], False
        try:
            self._check_header(view, pack, entry)
        except Damage as problem:
            self.damages.append(str(problem))
        try:
            self.dead = self._deletes(pack)
        except (Damage, FileNotFoundError) as problem:
            self.dead, self.lost = {}, True
            self.damages.append(f"deletion vector of segment {self.id}: {problem}")
        if entry["state"] == SEALED:
            view.expect(len(view.data), entry["committed"], "length of the sealed segment", 0)
            self.indexes.append(Index(view, b"FTR", self.nonce, self.id))
            wanted = {name: entry[name] for name in (*summary([]), "last_frame", "last_crc", "mark_crc")} | {"end": entry["frames_end"]}
            view.expect({name: self.indexes[0].footer[name] for name in wanted}, wanted, "footer", len(view.data))
        else:
            self.edition, self.written_after = pack.manifest.edition, None
            self._scan(self._checkpoints(pack))
            found = (self._has_frame(entry), self._last_mark()) if entry["committed"] > HEADER_LEN else None
            if found and not self.damages and found != (True, entry["mark_crc"]):
                self.damages.append(str(view.damage("the last committed frame or mark is another", entry["last_frame"])))

    def _check_header(self, view, pack, entry):
        view.closing_crc(0, HEADER_LEN)
        view.head(b"SEG", zeros=((21, 1), (68, 4)))
        view.expect(view.field("<Q", 24), self.id, "segment id", 24)
        view.expect(view.slice(32, 16), pack.manifest.nonce, "pack nonce", 32)
        view.expect(view.slice(48, 16), self.nonce, "segment nonce", 48)
        name_len, chunk_log2 = view.field("<H", 22), view.field("<B", 20)
        view.expect(view.slice(88, 255), self.group.encode()[:name_len].ljust(255, b"\0"), "group name", 88)
        found = {"marker": view.field("<I", 64), "by_key": view.field("<B", 343), "chunk_log2": chunk_log2}
        view.expect(found, {name: entry[name] for name in found}, "form of the segment", 20)

    def _deletes(self, pack):
        """{frame offset: (sequence number, time) at which its record died}"""
        generation = self.entry["deletes_generation"]
        if generation == 0:
            return {}
        name = f"deletes-{self.id:016x}-{generation:016x}"
        dead, damages = read_copies(pack.file(name).data, name, 56, lambda copy: self._deaths(copy, pack, generation))
        self.damages += damages
        return dead

    def _deaths(self, view, pack, generation):
        dead, offset, sequence, time_ns, end = {}, 0, 0, 0, len(view.data)
        view.closing_crc(0, end)
        view.head(b"DEL")
        found = (end, view.field("<I", end - 4))
        view.expect(found, (self.entry["deletes_len"], self.entry["deletes_crc"]), "length and checksum", end - 4)
        found = struct.unpack("<QQ16s", view.slice(16, 32))
        view.expect(found, (self.id, generation, pack.manifest.nonce), "segment, generation and nonce", 16)
        view.expect(view.field("<Q", 56), end, "length", 56)
        view.at = 64
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
                view.expect(self._has_frame(index.footer), True, "its last frame")
                all(True for _ in index.entries())
            except (Damage, Unsupported, FileNotFoundError):
                return at
            if index.footer["first"] != at or not at < index.footer["end"] <= self.entry["committed"]:
                return at
            self.indexes.append(index)
            at = index.footer["end"]

    def _has_frame(self, found):
        """Whether the last frame that an index or the manifest speaks of stands in this very copy
        of the segment.
        """
        return self.view.field("<I", found["last_frame"] + 8) == found["last_crc"]

    def _last_mark(self):
        """The checksum of the last sync mark below the committed length, or 0."""
        marks = [index.footer["mark_crc"] for index in self.indexes]
        marks += [frame.header_crc for frame in self.tail if frame.kind == SYNC_MARK and frame.end <= self.entry["committed"]]
        return marks[-1] if marks else 0

    def _is_beyond(self, frame):
        """Whether this frame after the committed length was written after another manifest than
        this one.
        """
        if frame.offset < self.entry["committed"]:
            return False
        if frame.kind == SYNC_MARK:
            self.written_after = struct.unpack("<QI", frame.attributes[8:20])
        is_unknown = self.written_after is None and self.damages
        if frame.in_batch or frame.kind == FILLER or is_unknown or self.written_after == self.edition:
            return False
        what = f"written after generation {self.written_after}, not after {self.edition}: nothing from here on counts"
        self.damages.append(str(self.view.damage(what, frame.offset)))
        while frame.kind == BATCH_END and self.tail and self.tail[-1].in_batch:
            self.tail.pop()
        return True

    def _scan(self, at):
        self._scan_frames(at)
        self._drop_unfinished()

    def _drop_unfinished(self):
        """Past the committed length the frames of a batch count only if its end follows, and speaks
        of them.
        """
        kept, pending = [], []
        for frame in self.tail:
            if frame.in_batch and frame.offset >= self.entry["committed"]:
                pending.append(frame)
                continue
            if pending and not self.damages and frame.kind in (RECORD, DELETION, BATCH_END):
                try:
                    if frame.kind != BATCH_END:
                        raise self.view.damage("a batch without its end", pending[0].offset)
                    check_batch(pending, frame)
                except Damage:
                    if self._vouched(pending[0].offset):
                        raise
                    # What is left of a batch that was dropped, where another was being written.
                    break
            if frame.kind in (RECORD, DELETION, BATCH_END):
                kept, pending = kept + pending, []
            kept.append(frame)
        if pending and not self.damages:
            start = pending[0].offset
            self.torn = {"segment": self.id, "offset": start, "length": len(self.view.data) - start}
            pending = []
        self.tail = kept + pending

    def _vouched(self, at):
        """Whether a sync mark says that this offset had been durable."""
        return any(frame.kind == SYNC_MARK and at < struct.unpack("<Q", frame.attributes[:8])[0] <= frame.offset
                   for frame in self.tail if frame.offset > at)

    def _scan_frames(self, at):
        while at < len(self.view.data):
            frame = None
            try:
                frame = Frame(self, at)
                at = frame.finish().end
                if self._is_beyond(frame):
                    return
            except Damage as problem:
                later = list(self.frames_after(at))
                marks = [(struct.unpack("<Q", f.attributes[:8])[0], f.offset) for f in later if f.kind == SYNC_MARK]
                if at >= max([self.entry["committed"]] + [durable for durable, offset in marks if durable <= offset]):
                    self.torn = {"segment": self.id, "offset": at, "length": len(self.view.data) - at}
                    return
                self.damages.append(str(problem))
                at = later[0].offset if later else len(self.view.data)
            # A record whose body alone is damaged hides the versions before it all the same.
            if frame:
                self.tail.append(frame)

    def frames_after(self, at):
        """Frames with a valid header after the place of damage: the marker is looked for at
        multiples of 8.
        """
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

    def deleted_at(self, form):
        """Sequence number of the last deletion of a key among the frames that no index covers, or
        0.
        """
        return max((f.sequence for f in self.tail if f.kind == DELETION and sort_form(f.key) == form), default=0)

    def all_records(self):
        """(sort form, offset of the frame) of all records that were not abandoned, dead ones too.
        """
        for index in self.indexes:
            yield from ((form, offset) for form, offset, _ in index.entries())
        yield from ((sort_form(f.key), f.offset) for f in self.tail if f.kind == RECORD and not f.abandoned)


class Pack:
    def __init__(self, path):
        self.path = pathlib.Path(path)
        names = [re.fullmatch("manifest-([0-9a-f]{16})", entry.name) for entry in self.path.iterdir()]
        name = max((name[0] for name in names if name), default=None)
        if name is None:
            raise Damage(self.path, 0, "there is no manifest: this is not a pack")
        generation = int(name[-16:], 16)
        self.manifest, self.damages = read_copies(
            self.file(name).data, name, 24, lambda copy: Manifest(copy, generation))
        self.segments = [Segment(self, entry) for entry in self.manifest.segments]
        self._find_later()

    def _find_later(self):
        """Segments that no manifest names, made after a generation that is gone."""
        for name in sorted(entry.name for entry in self.path.iterdir()):
            match = re.fullmatch("segment-([0-9a-f]{16})", name)
            number = int(match[1], 16) if match else -1
            if not self.manifest.state["next_segment"] <= number < 1 << 62:
                continue
            try:
                view = self.file(name)
                view.closing_crc(0, HEADER_LEN)
                view.head(b"SEG")
            except (Damage, Unsupported, OSError):
                continue
            is_own = (view.field("<Q", 24), view.slice(32, 16)) == (number, self.manifest.nonce)
            if is_own and view.field("<Q", 344) > self.manifest.generation:
                self.damages.append(str(view.damage(f"made after generation {view.field('<Q', 344)}", 344)))

    def file(self, name):
        # No link is followed, no pipe waited for, no device read.
        descriptor = os.open(self.path / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Damage(name, 0, "it is not a regular file")
            return View(file.read(), name)

    def get(self, key):
        """The frame of the record that counts, or None."""
        form, best = sort_form(key), None
        for segment in self.segments:
            offset = segment.newest(form)
            frame = offset and Frame(segment, offset)
            if frame and (best is None or frame.sequence > best.sequence):
                best = frame
        dead = not best or best.offset in best.segment.dead
        dead = dead or best.sequence < max(segment.deleted_at(form) for segment in self.segments)
        if not dead and best.segment.lost and best.offset < best.segment.entry["committed"]:
            raise best.segment.view.damage("whether this record was deleted is not known", best.offset)
        return None if dead else best.finish()

    def list(self):
        """What counts, in key order, and what is wrong."""
        records, damages = [], {damage for part in (self, *self.segments) for damage in part.damages}
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
    frames = list(segment.walk(end))
    verify_batches(segment, frames)
    records = [f for f in frames if f.kind == RECORD and not f.abandoned]
    for frame in records:
        parse_attributes(frame.attributes, view.where, frame.offset)
    by_offset = {frame.offset: frame for frame in records}
    view.expect(set(segment.dead) - set(by_offset), set(), "dead offsets without a record", 0)
    if segment.by_key:
        order = [(sort_form(frame.key), frame.sequence) for frame in records]
    else:
        order = [(frame.sequence, frame.time_ns) for frame in records]
    if any(a >= b or (not segment.by_key and a[1] > b[1]) for a, b in zip(order, order[1:])):
        raise view.damage("the records are not in their order", HEADER_LEN)
    for index in segment.indexes:
        verify_index(index, [f for f in records if index.footer["first"] <= f.offset < index.footer["end"]])
    found = summary([f for f in records if f.offset < entry["frames_end"]]) | {"dead": len(segment.dead)}
    view.expect(found, {name: entry[name] for name in found}, "summary of the records", 0)
    dead_len = sum(by_offset[offset].end - offset for offset in segment.dead)
    view.expect(dead_len, entry["dead_len"], "bytes of dead frames", 0)
    return len(records)


def verify_batches(segment, frames):
    members = []
    for frame in frames:
        if frame.in_batch:
            members.append(frame)
        elif frame.kind == BATCH_END:
            check_batch(members, frame)
            members = []
        elif frame.kind in (RECORD, DELETION) and members:
            raise segment.view.damage("a batch without its end", members[0].offset)


def summary(frames):
    sequences, times = [f.sequence for f in frames] or [0], [f.time_ns for f in frames] or [0]
    return {"records": len(frames), "body_len": sum(f.body_len for f in frames),
            "sequence_low": min(sequences), "sequence_high": max(sequences),
            "time_first": min(times), "time_last": max(times)}


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
    """{"ok", "records", "live", …}; walking the frames raises Damage with the first thing that is
    wrong.
    """
    total = sum(verify_segment(segment) for segment in pack.segments)
    listed = pack.list()
    for damage in listed["damages"]:
        raise Damage(pack.path, 0, damage)
    return {"ok": True, "segments": len(pack.segments), "records": total, "live": len(listed["records"])}


def run(arguments):
    pack = Pack(arguments.pack)
    if arguments.verb != "get":
        return pack.list() if arguments.verb == "list" else verify(pack)
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
        print(json.dumps(found := run(parser.parse_args()), indent=1))
        sys.exit(1 if found.get("damages") else 0)
    except (Damage, Unsupported, OSError, KeyError, ValueError) as problem:
        sys.exit(f"read_pack: {type(problem).__name__}: {problem}")


if __name__ == "__main__":
    main()
