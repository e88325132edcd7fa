"""The independent reader agrees with what was put into packs, and notices what is done to them."""

import hashlib
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE.parent / "golden"
REPOSITORY = HERE.parent.parent
FORMATS = REPOSITORY / "docs" / "formats"
sys.path.insert(0, str(FORMATS))

import read_pack as reader  # noqa: E402



class Vectors(unittest.TestCase):
    def test_crc32c_has_its_check_value(self):
        self.assertEqual(reader.crc32c(b"123456789"), 0xE3069283)
        self.assertEqual(reader.crc32c(b"1234", b"", b"56789"), 0xE3069283)
        self.assertEqual(reader.crc32c(bytes(32)), 0x8A9136AA)

    def test_leb128_numbers_end_at_64_bits(self):
        for data, value in ((b"\0", 0), (b"\x7f", 127), (b"\x80\x01", 128), (b"\xe5\x8e\x26", 624485)):
            self.assertEqual(reader.View(data, "vector").leb128(), value)
        self.assertEqual(reader.View(b"\xff" * 9 + b"\x01", "vector").leb128(), (1 << 64) - 1)
        for data in (b"", b"\x80", b"\xff" * 9 + b"\x02", b"\x80" * 10 + b"\0"):
            with self.assertRaises(reader.Damage):
                reader.View(data, "vector").leb128()

    def test_zigzag_alternates_between_signs(self):
        self.assertEqual([reader.zigzag(n) for n in (0, 1, 2, 3, (1 << 64) - 1)], [0, -1, 1, -2, -(1 << 63)])

    def test_keys_sort_by_kind_then_as_bytes_or_as_numbers(self):
        keys = [b"", b"\0", b"a", b"a\0", b"a/b", b"aa", b"b", b"\xff", 0, 1, 255, 256, (1 << 64) - 1]
        self.assertEqual(sorted(keys[::-1], key=reader.sort_form), keys)
        for key in keys:
            self.assertEqual(reader.key_of(reader.sort_form(key)), key)
            self.assertEqual(reader.parse_key(reader.key_text(key)), key)


class Golden(unittest.TestCase):
    def test_every_golden_pack_holds_what_was_put(self):
        packs = sorted(GOLDEN.glob("*.stook"))
        self.assertTrue(packs)
        for path in packs:
            with self.subTest(path.stem):
                expected = json.loads((GOLDEN / f"{path.stem}.expected.json").read_text(encoding="utf-8"))
                pack = reader.Pack(path)
                found = pack.list()
                self.assertEqual(found["records"], expected["records"])
                self.assertEqual((found["complete"], bool(found["torn"])), (expected["complete"], expected["torn"]))
                self.assertEqual(found["damages"], [])
                self.assertEqual(reader.verify(pack)["live"], len(expected["records"]))
                self.assertIsNone(pack.get(b"no such key"))

    def test_the_golden_packs_show_what_the_format_has(self):
        """Else a golden pack could lose what it is there for without anybody noticing."""
        packs = {path.stem: reader.Pack(path) for path in GOLDEN.glob("*.stook")}
        segments = {name: pack.segments for name, pack in packs.items()}
        self.assertGreater(len(segments["checkpoint"][0].indexes), 1)
        self.assertTrue(segments["checkpoint"][0].tail)
        self.assertTrue(all(segment.dead for segment in segments["overwritten"][:2]))
        index = segments["overwritten"][0].indexes[0]
        self.assertEqual(len([s for s in index.separators if s == reader.sort_form(b"many\0")]), 1)
        index = segments["kinds"][0].indexes[0]
        self.assertGreater(index.units, len(index.first_units))
        kinds = {frame.kind for frame in segments["torn"][0].tail}
        self.assertEqual(kinds, {reader.RECORD, reader.SYNC_MARK})
        self.assertEqual({segment.group for segment in segments["groups"]}, {"", "images/β"})
        self.assertEqual(packs["groups"].manifest.roots, [b"/data/a", b"/data/\xff"])

    def test_the_command_line_lists_gets_and_verifies(self):
        def run(*arguments):
            command = [sys.executable, str(FORMATS / "read_pack.py"), *map(str, arguments)]
            return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)

        expected = json.loads((GOLDEN / "torn.expected.json").read_text(encoding="utf-8"))["records"]
        listed = run("list", GOLDEN / "torn.stook")
        self.assertEqual(json.loads(listed.stdout)["records"], expected, listed.stderr)
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder, "body")
            got = run("get", GOLDEN / "torn.stook", expected[-1]["key"], "--out", out)
            self.assertEqual(json.loads(got.stdout), expected[-1], got.stderr)
            self.assertEqual(hashlib.sha256(out.read_bytes()).hexdigest(), expected[-1]["sha256"])
        self.assertTrue(json.loads(run("verify", GOLDEN / "torn.stook").stdout)["ok"])
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder, "p.stook")
            shutil.copytree(GOLDEN / "overwritten.stook", copy)
            newest = max(copy.glob("manifest-*"))
            damaged(newest, 40, 1)
            listed = run("list", copy)
            self.assertEqual((listed.returncode, len(json.loads(listed.stdout)["damages"])), (1, 1), listed.stderr)
        absent = run("get", GOLDEN / "torn.stook", "absent")
        self.assertNotEqual(absent.returncode, 0)
        self.assertIn("absent", absent.stderr)


class Foreign(unittest.TestCase):
    """What is no regular file is refused at once."""

    def test_links_pipes_and_directories_are_not_read(self):
        def link(path):
            moved = path.with_name("elsewhere")
            path.rename(moved)
            path.symlink_to(moved)

        def pipe(path):
            path.unlink()
            os.mkfifo(path)

        def directory(path):
            path.unlink()
            path.mkdir()

        for pattern in ("manifest-*", "segment-*", "deletes-*"):
            for replace in (link, pipe, directory):
                with tempfile.TemporaryDirectory() as folder, self.subTest(pattern, kind=replace.__name__):
                    copy = pathlib.Path(folder, "p.stook")
                    shutil.copytree(GOLDEN / "overwritten.stook", copy)
                    replace(max(copy.glob(pattern)))
                    command = [sys.executable, str(FORMATS / "read_pack.py"), "list", str(copy)]
                    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
                    self.assertNotEqual(done.returncode, 0, done.stdout)


def damaged(path, offset, mask):
    data = bytearray(path.read_bytes())
    data[offset] ^= mask
    path.write_bytes(data)


class Flips(unittest.TestCase):
    """A flipped bit is reported, or is in bytes that carry nothing: never is anything else read
    than was put.
    """

    def check(self, name, flips):
        expected = json.loads((GOLDEN / f"{name}.expected.json").read_text(encoding="utf-8"))["records"]
        reported = 0
        for file_name, offset, bit in flips:
            with tempfile.TemporaryDirectory() as folder, self.subTest(f"{name}/{file_name}", offset=offset, bit=bit):
                copy = pathlib.Path(folder, "p.stook")
                shutil.copytree(GOLDEN / f"{name}.stook", copy)
                damaged(copy / file_name, offset, 1 << bit)
                try:
                    pack = reader.Pack(copy)
                    reader.verify(pack)
                except (reader.Damage, reader.Unsupported):
                    reported += 1
                else:
                    self.assertEqual(pack.list()["records"], expected)
        return reported

    def test_flips_anywhere_never_change_what_is_read(self):
        chance = random.Random(20260101)
        flips = []
        for path in sorted((GOLDEN / "overwritten.stook").iterdir()):
            length = path.stat().st_size
            flips += [(path.name, chance.randrange(length), chance.randrange(8)) for _ in range(4)]
        # Zeros between parts and generations that no longer count are not looked at.
        self.assertGreater(self.check("overwritten", flips), len(flips) // 2)

    def test_flips_below_the_durable_length_of_a_mark_are_damage(self):
        segment = reader.Pack(GOLDEN / "torn.stook").segments[0]
        mark = max((frame for frame in segment.tail if frame.kind == reader.SYNC_MARK), key=lambda f: f.offset)
        hit = [frame for frame in segment.tail if frame.kind == reader.RECORD and frame.offset < mark.offset]
        flips = [(segment.view.where, frame.offset + at, 3) for frame in hit for at in (0, 4, 5, 9, 16, 24, 41, 60)]
        self.assertEqual(self.check("torn", flips), len(flips))

    def test_flips_in_checkpoints_cost_a_scan_and_nothing_else(self):
        paths = sorted((GOLDEN / "checkpoint.stook").glob("checkpoint-*"))
        flips = [(path.name, at, 0) for path in paths for at in (0, 13, 4095, 4100, path.stat().st_size - 1)]
        self.assertEqual(self.check("checkpoint", flips), 0)

    def test_a_damaged_body_hides_older_versions_and_leaves_the_rest(self):
        segment = reader.Pack(GOLDEN / "torn.stook").segments[0]
        newest = next(f for f in reversed(segment.tail) if f.key == b"a3")
        expected = json.loads((GOLDEN / "torn.expected.json").read_text(encoding="utf-8"))["records"]
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder, "p.stook")
            shutil.copytree(GOLDEN / "torn.stook", copy)
            damaged(copy / segment.view.where, newest.body_at + 7, 1)
            listed = reader.Pack(copy).list()
            self.assertEqual(listed["records"], [record for record in expected if record["key"] != "text:a3"])
            self.assertTrue(listed["damages"])
            with self.assertRaises(reader.Damage):
                reader.Pack(copy).get(b"a3")

    def test_a_frame_of_a_newer_version_is_neither_damage_nor_a_torn_tail(self):
        segment = reader.Pack(GOLDEN / "torn.stook").segments[0]
        last = segment.tail[-1]
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder, "p.stook")
            shutil.copytree(GOLDEN / "torn.stook", copy)
            path = copy / segment.view.where
            data = bytearray(path.read_bytes())
            data[last.offset + 5] = 77
            head = data[last.offset : last.body_at]
            place = last.offset.to_bytes(8, "little")
            crc = reader.crc32c(segment.nonce, place, head[:4], head[5:8], head[12:])
            data[last.offset + 8 : last.offset + 12] = crc.to_bytes(4, "little")
            path.write_bytes(data)
            with self.assertRaises(reader.Unsupported):
                reader.Pack(copy)


class Lost(unittest.TestCase):
    """What stands twice is lost only twice; what is not known is refused; what lies in the wrong
    place is damage.
    """

    def changed(self, name, change):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        copy = pathlib.Path(folder, "p.stook")
        shutil.copytree(GOLDEN / f"{name}.stook", copy)
        change(copy)
        return reader.Pack(copy)

    def expected(self, name):
        return json.loads((GOLDEN / f"{name}.expected.json").read_text(encoding="utf-8"))["records"]

    def test_one_copy_costs_nothing_and_is_reported(self):
        names = [path.name for path in sorted((GOLDEN / "overwritten.stook").iterdir())]
        newest = max(name for name in names if name.startswith("manifest-"))
        vectors = [name for name in names if name.startswith("deletes-")]
        for name in [newest, *vectors]:
            length = (GOLDEN / "overwritten.stook" / name).stat().st_size
            self.assertEqual(length % (2 * reader.UNIT), 0)
            for at in (0, 100, length // 2, length // 2 + 60):
                pack = self.changed("overwritten", lambda copy: damaged(copy / name, at, 1))
                listed = pack.list()
                self.assertEqual(listed["records"], self.expected("overwritten"))
                named = {segment.entry["deletes_generation"] for segment in pack.segments}
                reported = name == newest or int(name.rsplit("-", 1)[1], 16) in named
                self.assertEqual(bool(listed["damages"]), reported, (name, at))

    def test_without_a_deletion_vector_records_that_it_could_concern_are_refused(self):
        whole = reader.Pack(GOLDEN / "overwritten.stook")
        hurt = next(segment for segment in whole.segments if segment.dead)
        name = f"deletes-{hurt.id:016x}-{hurt.entry['deletes_generation']:016x}"

        def both(copy):
            for at in (20, (copy / name).stat().st_size // 2 + 20):
                damaged(copy / name, at, 1)

        for change in (both, lambda copy: (copy / name).unlink()):
            pack = self.changed("overwritten", change)
            listed = pack.list()["records"]
            for record in self.expected("overwritten"):
                held = whole.get(reader.parse_key(record["key"])).segment.id
                self.assertEqual(record in listed, held != hurt.id, record["key"])
                if held == hurt.id:
                    with self.assertRaises(reader.Damage):
                        pack.get(reader.parse_key(record["key"]))
            self.assertTrue(all(record in self.expected("overwritten") for record in listed))

    def test_a_segment_without_its_header_is_read_by_the_manifest(self):
        def change(copy):
            path = next(iter(sorted(copy.glob("segment-*"))))
            path.write_bytes(bytes(4096) + path.read_bytes()[4096:])

        listed = self.changed("overwritten", change).list()
        self.assertEqual(listed["records"], self.expected("overwritten"))
        self.assertTrue(listed["damages"])

    def test_exchanged_bodies_are_damage_of_both(self):
        pack = reader.Pack(GOLDEN / "overwritten.stook")
        by_length = {}
        for record in self.expected("overwritten"):
            frame = pack.get(reader.parse_key(record["key"]))
            place = (frame.segment.id, frame.body_len)
            other = by_length.setdefault(place, frame)
            if other is not frame and frame.body_len and other.body() != frame.body() and not frame._pieces:
                break
        else:
            self.fail("no two records of one length")
        length = frame.body_len + 4 * -(-frame.body_len // frame.segment.chunk)

        def change(copy):
            path = copy / frame.segment.view.where
            data = bytearray(path.read_bytes())
            first, second = (slice(f.body_at, f.body_at + length) for f in (other, frame))
            data[first], data[second] = data[second], data[first]
            path.write_bytes(data)

        listed = self.changed("overwritten", change).list()
        gone = {reader.key_text(other.key), reader.key_text(frame.key)}
        self.assertEqual(listed["records"], [r for r in self.expected("overwritten") if r["key"] not in gone])
        self.assertEqual(len(listed["damages"]), 2)


class AgainstStook(unittest.TestCase):
    """Packs that the `stook` command makes of random files are read back by the independent reader.
    """

    @classmethod
    def setUpClass(cls):
        build = ["cargo", "build", "--quiet", "--locked", "-p", "stook-cli", "--message-format=json"]
        built = subprocess.run(build, cwd=REPOSITORY, stdout=subprocess.PIPE, check=True)
        artifacts = [json.loads(line) for line in built.stdout.splitlines()]
        cls.stook = next(artifact["executable"] for artifact in artifacts if artifact.get("executable"))

    def put(self, pack, key, body, chance):
        group = chance.choice(["", "second"])
        command = [self.stook, "put", str(pack), key, "--group", group]
        source = pathlib.Path(pack.parent, "body")
        if chance.random() < 0.5:
            # From a file the length is known; from stdin the body is framed.
            source.write_bytes(body)
            command.insert(4, str(source))
        done = subprocess.run(command, input=body, capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return group

    def test_random_packs_are_read_as_they_were_put(self):
        chance = random.Random(20260102)
        lengths = [0, 1, 65535, 65536, 65537, 131072, 200_000]
        with tempfile.TemporaryDirectory() as folder:
            pack_path, expected = pathlib.Path(folder, "p.stook"), {}
            for _ in range(24):
                key = chance.choice(["id:{}", "dir/{}", "größe {}"]).format(chance.randrange(5))
                body = chance.randbytes(chance.choice([*lengths, chance.randrange(5000)]))
                group = self.put(pack_path, key, body, chance)
                expected[key if key.startswith("id:") else reader.key_text(key.encode())] = (
                    group, len(body), hashlib.sha256(body).hexdigest())
            pack = reader.Pack(pack_path)
            self.assertEqual(reader.verify(pack)["live"], len(expected))
            found = {r["key"]: (r["group"], r["length"], r["sha256"]) for r in pack.list()["records"]}
            self.assertEqual(found, expected)


if __name__ == "__main__":
    unittest.main()
