"""Packs as what every mapping of Python is: views, and the methods of ``dict``."""

from __future__ import annotations

import collections
import os
import subprocess
import sys
import threading
from collections.abc import ItemsView, KeysView, MutableMapping, Set, ValuesView
from pathlib import Path
from typing import Any, Callable, Iterator, Union

import pytest

import stook

DURABILITIES: list[stook.Durability] = ["sync", "put"]


@pytest.fixture(params=DURABILITIES)
def pack(request: pytest.FixtureRequest) -> Iterator[stook.Pack]:
    with stook.Pack("p.stook", "x", durability=request.param) as made:
        content: dict[Union[str, int], bytes] = {"a/1": b"x", "a/2": b"yy", "b": b"zzz", 7: b"seven"}
        made.update(content)
        yield made


def test_a_pack_is_a_mutable_mapping(pack: stook.Pack) -> None:
    assert isinstance(pack, MutableMapping)
    assert isinstance(pack.keys(), KeysView) and isinstance(pack.keys(), Set)
    assert isinstance(pack.items(), ItemsView) and isinstance(pack.values(), ValuesView)
    wanted = {name for name in dir(MutableMapping) if not name.startswith("_") or name in ("__eq__", "__ne__")}
    assert all(callable(getattr(pack, name)) for name in wanted)
    more: dict[Union[str, int], bytes] = {"c": b"1"}
    assert collections.ChainMap(more, pack)["b"] == b"zzz"


def test_views_show_what_the_pack_has_when_they_are_asked(pack: stook.Pack) -> None:
    keys, items, values, below = pack.keys(), pack.items(), pack.values(), pack.keys(prefix="a/")
    assert (len(keys), len(items), len(values), len(below)) == (4, 4, 4, 2)
    assert list(keys) == ["a/1", "a/2", "b", 7] and list(below) == ["a/1", "a/2"]
    assert list(items)[2] == ("b", b"zzz") and list(values) == [b"x", b"yy", b"zzz", b"seven"]
    pack["a/3"] = b""
    del pack["b"]
    assert (len(keys), len(below), "b" in keys, "a/3" in below, 7 in below) == (4, 3, False, True, False)
    assert ("a/3", b"") in items and ("a/3", b"x") not in items and b"" in values
    others: list[Any] = [b"a/3", (7, bytearray(b"seven")), memoryview(b"seven")]
    assert others[0] in keys and others[1] in items and others[2] in values
    # As often as one likes.
    assert list(keys) == list(keys) == ["a/1", "a/2", "a/3", 7]
    assert [len(view) for view in (pack.items(start="a/2", end=7), pack.values(prefix="a/"), pack.keys(end="a/2"))] == [2, 3, 1]
    assert list(pack.items(prefix="a/2")) == [("a/2", b"yy")] and list(pack.values(start=7)) == [b"seven"]


def test_what_can_be_no_key_is_in_no_view(pack: stook.Pack) -> None:
    nothing: list[Any] = [None, 1.5, ("b",), -1, 2**64, "x" * 70_000, [], {}]
    for key in nothing:
        assert key not in pack.keys() and (key, b"x") not in pack.items() and key not in pack.items()
        assert key not in pack.values()
    pairs: list[Any] = [("b", "zzz"), ("b", None), ("b",), "bz"]
    assert not any(pair in pack.items() for pair in pairs)
    assert {None, "b"} & pack.keys() == {"b"} and pack.keys() - {None, 1.5} == set(pack)
    assert (pack.keys() == {None}, pack.keys() >= {None}, pack.keys().isdisjoint([None, 1.5])) == (False, False, True)


@pytest.mark.parametrize("other", [{"b", 7, "none"}, {b"b", 7, b"none"}, set(), {"a/1", "a/2", "b", 7}])
def test_keys_are_a_set_in_whatever_form_others_have_them(pack: stook.Pack, other: set[Any]) -> None:
    keys, ours = pack.keys(), set(pack)
    theirs = {key.decode() if isinstance(key, bytes) else key for key in other}
    # Views of dicts do it themselves where they stand first, and know one form only.
    several: list[tuple[Any, Any]] = [(keys, other), (keys, dict.fromkeys(theirs).keys()), (keys, frozenset(other))]
    for one, two in several:
        assert (one & two, two & one) == (ours & theirs, theirs & ours)
        assert (one | two, two | one) == (ours | theirs, theirs | ours)
        assert (one - two, two - one) == (ours - theirs, theirs - ours)
        assert (one ^ two, two ^ one) == (ours ^ theirs, theirs ^ ours)
        assert one.isdisjoint(two) == ours.isdisjoint(theirs)
        compared = [one < two, one <= two, one == two, one != two, one >= two, one > two]
        assert compared == [ours < theirs, ours <= theirs, ours == theirs, ours != theirs, ours >= theirs, ours > theirs]
        assert all(isinstance(made, set) for made in (one & two, one | two, one - two, one ^ two, two - one))
    assert keys & list(other) == ours & theirs
    nothing: list[Any] = [5, None]
    for wrong in nothing:
        operations: list[Callable[[], object]] = [
            lambda: keys & wrong, lambda: wrong | keys, lambda: keys - wrong, lambda: keys ^ wrong, lambda: keys < wrong,
        ]
        for operation in operations:
            with pytest.raises(TypeError):
                operation()
        assert keys != wrong


def test_what_no_set_can_have_is_compared_too(pack: stook.Pack) -> None:
    items: Any = pack.items()
    lists = {"b": [1], 7: b"seven"}.items()
    assert (items == lists, items <= lists, items >= lists, items - lists == set(items) - {(7, b"seven")}) == (False, False, False, True)
    assert pack.items(start=7) < lists and not items.isdisjoint(lists)
    with pytest.raises(TypeError, match="unhashable"):
        items | lists
    with pytest.raises(TypeError, match="unhashable"):
        items ^ lists


def test_views_of_two_packs_are_compared_and_cut_with_each_other(pack: stook.Pack) -> None:
    with stook.Pack("other.stook", "x") as other:
        content: dict[Union[str, int], bytes] = {"b": b"zzz", 7: b"other", "c": b""}
        other.update(content)
        assert pack.keys() & other.keys() == {"b", 7} and pack.items() & other.items() == {("b", b"zzz")}
        assert pack.keys() - other.keys() == {"a/1", "a/2"} and other.keys() - pack.keys() == {"c"}
        assert pack.items() ^ other.items() == set(pack.items()) ^ set(other.items())
        assert other.keys(prefix="b") <= pack.keys() and not other.keys() <= pack.keys()
        assert pack.keys() > other.keys(end="c") and pack.keys(prefix="b") == other.keys(prefix="b")
        # Also of lists, whose elements may be what no set can have.
        assert pack.items() - [(b"b", bytearray(b"zzz")), None] == set(pack.items()) - {("b", b"zzz")}


def test_views_of_trees_have_the_length_of_what_they_give() -> None:
    (tree := Path("tree/d")).mkdir(parents=True)
    (tree / "a").write_bytes(b"1")
    (tree / "link").symlink_to("a")
    os.link(tree / "a", tree / "z")
    stook.pack_tree("tree", "t.stook")
    with stook.Pack("t.stook") as pack:
        assert list(pack.keys()) == list(pack) == ["", "d", "d/a", "d/link", "d/z"] and len(pack.keys()) == 5
        files = {"d/a": b"1", "d/z": b"1"}
        assert dict(pack.items()) == files and (len(pack.items()), len(pack.values())) == (2, 2)
        assert pack.items() == files.items() and ("d/link", b"a") not in pack.items()
        assert ("d/link", b"a") in pack.items(kinds="symlink") and "d" not in pack.keys(kinds="file")
        assert len(pack.keys(kinds=["directory", "symlink"])) == 3
        # The mapping itself has every key.
        assert pack == dict(pack) != files


COUNTED = """
import resource, sys, stook
with stook.Pack(sys.argv[1]) as pack, stook.Pack(sys.argv[2]) as same:
    def used():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert len(pack.keys(prefix="k")) == 50_000 and 0 in pack.keys() and next(iter(pack.items()))[1]
    before = used()
    assert len(pack.keys(prefix="k")) == 50_000 and len(pack.items()) == 50_001
    assert pack == same and pack.keys() >= same.keys(prefix="k000")
    print(used() - before)
"""


def test_lengths_and_comparisons_list_nothing_into_memory() -> None:
    # As texts of Python the keys alone would take 23 MB.
    with stook.Pack("long.stook", "x") as pack:
        pack.update((f"k{number:05}" + "k" * 400, b"v" * 20) for number in range(50_000))
        pack[0] = b"0"
    pack_copy = stook.repair("long.stook", "same.stook")
    assert pack_copy.records == 50_001
    command = [sys.executable, "-W", "ignore", "-c", COUNTED, "long.stook", "same.stook"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 10_000, "kilobytes"


def test_what_is_shown_of_views(pack: stook.Pack) -> None:
    assert repr(pack.keys()) == "<stook.KeysView of <stook.Pack p.stook (x)>>"
    assert pack.items().pack is pack and "ItemsView" in repr(pack.items())
    with pytest.raises(TypeError):
        hash(pack.keys())


def test_closed_packs_have_no_views(filled: Path) -> None:
    pack = stook.Pack(filled)
    keys = pack.keys()
    pack.close()
    calls: list[Callable[[], object]] = [
        pack.keys, pack.items, pack.values, lambda: len(keys), lambda: list(keys), lambda: "a" in keys, lambda: pack == {},
    ]
    for call in calls:
        with pytest.raises(stook.ClosedError):
            call()


def test_arguments_of_views_are_refused_where_they_are_given(pack: stook.Pack) -> None:
    wrong: Any = 5
    for view in (pack.keys, pack.items, pack.values):
        with pytest.raises(TypeError, match="a prefix is str or bytes, not int"):
            view(prefix=wrong)
        with pytest.raises(stook.InvalidError, match="either a prefix, or start and end"):
            view(prefix="a", start="b")
        with pytest.raises(stook.InvalidError, match="kinds are"):
            view(kinds="files")  # type: ignore[arg-type]
    for shown in (pack.items, pack.values):
        with pytest.raises(stook.InvalidError, match="progress is a callable"):
            shown(progress=wrong)


def test_pop_popitem_and_setdefault(pack: stook.Pack) -> None:
    assert pack.pop("b") == b"zzz" and pack.pop("b", default=None) is None and pack.pop("b", 5) == 5
    with pytest.raises(KeyError):
        pack.pop("b")
    assert pack.setdefault("a/1", b"other") == b"x" and pack.setdefault("c", bytearray(b"new")) == b"new"
    assert pack.setdefault(b"c", b"newer") == b"new" == pack["c"]
    for given in ((), (None,)):
        assert pack.setdefault("c", *given) == b"new"
        with pytest.raises(TypeError, match="no record 'd', and a bytes-like object is wanted, not NoneType"):
            pack.setdefault("d", *given)
    assert "d" not in pack
    assert pack.append(b"next") == 8 and pack.setdefault(20, b"twenty") == b"twenty" and pack.append(b"") == 21
    assert [pack.popitem() for _ in range(3)] == [("a/1", b"x"), ("a/2", b"yy"), ("c", b"new")]
    pack["a"] = b"again"
    assert [pack.popitem()[0] for _ in range(5)] == ["a", 7, 8, 20, 21]
    with pytest.raises(KeyError, match="this pack is empty"):
        pack.popitem()
    assert len(pack) == 0


def test_it_takes_what_a_mapping_takes(pack: stook.Pack) -> None:
    pack.update(b=b"by name", c=bytearray(b"new"))
    pack.update({"d": b"4"}, e=b"5", group="g")
    pack.update()
    assert [pack[key] for key in "bcde"] == [b"by name", b"new", b"4", b"5"]
    record = pack.record("e")
    assert record is not None and record.group == "g"
    no_keys: list[object] = [None, 1.5, -1, 2**64, ("a",), [], "x" * 70_000]
    for no_key in no_keys:
        assert no_key not in pack and no_key not in pack.keys()
    with pytest.raises(TypeError, match="not reversible"):
        reversed(pack)
    for wrong, key in (({"good": b"1", "wrong": "text"}, "'wrong'"), ([(7, b""), (8, 5)], "8")):
        with pytest.raises(TypeError, match=f"the value of {key}: a bytes-like object is wanted, not"):
            pack.update(wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"not str: text.encode\(\) gives one"):
        pack["text"] = "text"  # type: ignore[assignment]


def test_what_is_made_of_a_pack_says_of_which(pack: stook.Pack) -> None:
    pack.sync()
    where = f"of {pack.path}>"
    assert repr(pack.scan()) == f"<stook.Scan {where}" and repr(pack.follow(timeout=0)) == f"<stook.Follow {where}"
    assert repr(pack.keys(prefix="a/")) == f"<stook.KeysView of {pack!r}, prefix='a/'>"
    assert repr(pack.items(start="a", kinds=("file", "symlink"))) == f"<stook.ItemsView of {pack!r}, start='a', kinds=('file', 'symlink')>"
    with pack.batch() as batch:
        batch["k"] = b"1"
        assert repr(batch) == "<stook.Batch of 1 changes>"
    assert repr(batch) == "<stook.Batch of 0 changes, closed>"


def without_a_segment(path: Path) -> Path:
    """A pack of three groups of ten, and the file of the first, which is taken away."""
    with stook.Pack(path, "x") as pack:
        for group in "abc":
            for number in range(10):
                pack.put(f"{group}{number}", b"x" * 500, group=group)
        pack.compact()
        place = pack.record("a0")
        assert place is not None
    (file,) = [file for file in path.iterdir() if file.name.startswith("segment") and b"a0" in file.read_bytes()]
    file.rename(path.parent / "taken")
    return file


@pytest.mark.filterwarnings("ignore::stook.DamageWarning")
def test_what_damage_hides_is_not_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "data.stook"
    file = without_a_segment(path)
    with stook.Pack(path, "r+") as pack:
        with pytest.raises(stook.DamagedError):
            pack.clear()
        with pytest.raises(stook.DamagedError):
            pack.popitem()
        assert len(pack.delete_many(prefix="b", dry_run=True).damages) == 1
        deleted = pack.delete_many(prefix="b")
        assert deleted.deleted == 10 and isinstance(deleted.damages[0], stook.DamagedError)
        hidden = pack.delete_many(prefix="a")
        assert hidden.deleted == 0 and len(hidden.damages) == 1
        assert pack.delete_many(["c0"]).damages == []
    (tmp_path / "taken").rename(file)
    with stook.Pack(path, "r+") as pack:
        assert len(pack) == 19
        with pytest.raises(stook.InvalidError, match="nothing matches"):
            pack.delete_many(prefix="b")
        pack.clear()
        assert len(pack) == 0


def test_one_of_many_threads_sets_the_default() -> None:
    with stook.Pack("p.stook", "x") as pack:
        got: list[bytes] = []
        threads = [threading.Thread(target=lambda n=n: got.append(pack.setdefault("k", b"%d" % n))) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(got) == 8 and set(got) == {pack["k"]}


def test_everything_is_cleared_in_one_commit(pack: stook.Pack) -> None:
    with stook.Pack("p.stook") as before:
        pack.sync()
        before.refresh()
        generation, calls = pack.generation, list[tuple[int, int]]()
        pack.clear(progress=lambda done, total: calls.append((done, total)))
        assert len(pack) == 0 and list(pack.keys()) == [] and pack == {}
        assert dict(before.items()) == {"a/1": b"x", "a/2": b"yy", "b": b"zzz", 7: b"seven"}
        pack.clear()
        assert calls and all(0 <= done <= total == 4 for done, total in calls) and pack.generation >= generation
        pack["new"] = b"1"
        assert pack == {"new": b"1"}


def test_a_clear_that_is_ended_deletes_nothing(pack: stook.Pack) -> None:
    def refuse(*_: int) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        pack.clear(progress=refuse)
    assert len(pack) == 4 and pack["b"] == b"zzz"
    with stook.Pack("p.stook") as reader:
        with pytest.raises(stook.InvalidError, match="open to be read"):
            reader.clear()
        with pytest.raises(stook.InvalidError, match="open to be read"):
            reader.popitem()
        with pytest.raises(stook.InvalidError, match="open to be read"):
            reader.setdefault("b", b"")


def test_hard_links_are_cleared_with_their_files() -> None:
    Path("tree").mkdir()
    Path("tree/a").write_bytes(b"1" * 50_000)
    os.link("tree/a", "tree/b")
    stook.pack_tree("tree", "t.stook")
    with stook.Pack("t.stook", "r+") as pack:
        pack.clear()
        assert pack == {} and pack.check().ok


def test_updates_in_place(pack: stook.Pack) -> None:
    same = pack
    pack |= {"c": b"1", "b": b"2"}
    pack |= [("d", b"3")]
    assert pack is same and pack.get_many(["b", "c", "d"]) == [b"2", b"1", b"3"]
    with stook.Pack("other.stook", "x") as other:
        other |= pack
        assert other == pack
        other |= other
        assert other == pack
    with pytest.raises(TypeError):
        pack |= 5  # type: ignore[arg-type]
    # It would be all of it in memory: dict(pack.items()) says so.
    with pytest.raises(TypeError):
        pack | {}  # type: ignore[operator]

    class Other:
        def keys(self) -> list[str]:
            raise AssertionError("pairs are asked for")

        def items(self) -> Iterator[tuple[str, bytes]]:
            yield "e", b"4"

    pack.update(Other())  # type: ignore[arg-type]
    assert pack["e"] == b"4"


@pytest.mark.parametrize("change", [
    lambda other: other.pop("b"),
    lambda other: other.update({"b": b"zzy"}),
    lambda other: other.update({"c": b""}),
    lambda other: (other.pop("b"), other.update({"bb": b"zzz"})),
])
def test_packs_are_equal_to_what_has_the_same_content(pack: stook.Pack, change: Callable[[Any], object]) -> None:
    same: dict[Any, Any] = {"b": bytearray(b"zzz"), b"a/2": memoryview(b"yy"), "a/1": b"x", 7: b"seven"}
    assert pack == pack and pack == same and same == pack and not pack != same
    assert (pack == [], pack == None, pack == {"b": "zzz"}, pack != 5) == (False, False, False, True)  # noqa: E711
    with stook.Pack("other.stook", "x") as other:
        other.update(same)
        other.put("b", b"zzz", attributes={"n": 1}, group="elsewhere")
        assert pack == other and other == pack and not other != pack
        change(other)
        assert pack != other and other != pack and dict(other.items()) != pack
    with pytest.raises(TypeError, match="unhashable"):
        hash(pack)


def test_a_comparison_meets_damage(filled: Path, damage: Callable[[Path, bytes], None]) -> None:
    content: dict[Union[str, int], bytes] = {"a": b"alpha", "g": b"in a group", 7: b"seven"}
    with stook.Pack(filled, "r+") as pack:
        # Bodies of what is not sealed are verified when it is opened.
        del pack[7]
        pack.compact()
        pack[7] = b"seven"
        assert pack == content
    damage(filled, b"alpha")
    with stook.Pack(filled) as pack:
        with pytest.raises(stook.DamagedError):
            assert pack == content
        with pytest.raises(stook.DamagedError):
            assert b"seven" in pack.values()
    with stook.Pack(filled, "r+") as pack:
        with pytest.raises(stook.DamagedError):
            pack.popitem()
        assert "a" in pack
        pack.clear()
        assert len(pack) == 0


def test_a_default_dict_is_compared_without_a_change(pack: stook.Pack) -> None:
    other: collections.defaultdict[Any, bytes] = collections.defaultdict(bytes, {1: b"", 2: b"", 3: b"", 4: b""})
    assert pack != other and len(other) == 4
    with stook.Pack("none.stook", "x") as none:
        assert none == {} and none != stook.SparseStore() or len(none) == 0
        assert none == stook.SparseStore()
    names = stook.SparseStore()
    for name in ("a/1", "a/2", "b", "c"):
        names.get_or_create(name)
    assert pack != names


def test_batches_are_written_as_dicts_are(pack: stook.Pack) -> None:
    with pack.batch() as batch:
        batch["c"] = b"1"
        batch[b"d"] = bytearray(b"2")
        del batch["a/1"]
        del batch["none"]
        del batch[b"d"]
        assert len(batch) == 5 and "c" not in pack
        with pytest.raises(TypeError, match="a bytes-like object is wanted"):
            batch["e"] = "text"  # type: ignore[assignment]
        with pytest.raises(TypeError, match="keys are str, bytes or int"):
            del batch[None]  # type: ignore[arg-type]
    assert pack == {"a/2": b"yy", "b": b"zzz", "c": b"1", 7: b"seven"}
    with pytest.raises(stook.ClosedError):
        batch["f"] = b""
