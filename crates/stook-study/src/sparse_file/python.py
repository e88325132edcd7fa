"""Makes the calls of plans with a package, and answers with seconds: one plan a line, in JSON."""

import json
import operator
import sys
import threading
import time
import warnings

# What lies in the directory that somebody happens to be in is not what is installed.
sys.path = [entry for entry in sys.path if entry]


def package(name):
    """What makes an empty file, its memory, its version, and whether that is a debug build."""
    if name == "svfsc":
        import importlib.metadata

        import svfsc

        version = importlib.metadata.version("svfsc")
        return lambda: svfsc.cSVF("study"), lambda file: file.size_of(), version, False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import stook
    is_debug = getattr(stook, "_DEBUG", False)
    return stook.SparseBuffer, lambda file: file.memory_bytes, stook.__version__, is_debug


def answer(**fields):
    print(json.dumps(fields), flush=True)


def content(blocks):
    return (bytes(range(256)) * (blocks["len"] // 256 + 1))[: blocks["len"]]


def positions(blocks, first=0, count=None):
    count = blocks["count"] if count is None else count
    return range(first * blocks["stride"], (first + count) * blocks["stride"], blocks["stride"])


def loop(call, at, argument):
    for position in at:
        call(position, argument)


def in_threads(calls):
    """How long threads take, each with the calls that it is given."""
    errors = []

    def guarded(*arguments):
        try:
            loop(*arguments)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=arguments) for arguments in calls]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - began
    if errors:
        raise errors[0]
    return took


def run(make, plan):
    """The files, how long the calls took, and how long as many that do nothing."""
    threads, calls, before = plan["threads"], plan["calls"], plan["before"]
    is_own = threads is not None and threads["share"] == "own"
    files = [make() for _ in range(threads["count"] if is_own else 1)]
    if before is not None:
        for file in files:
            loop(file.write, positions(before), content(before))
    argument = content(calls) if plan["call"] == "write" else calls["len"]
    if threads is not None:
        count = threads["count"]
        each = calls["count"] // count if threads["share"] == "part" else calls["count"]
        first = [number * each if threads["share"] == "part" else 0 for number in range(count)]
        takers = files if is_own else files * count
        calls_of = [positions(calls, at, each) for at in first]
        work = [(getattr(file, plan["call"]), at, argument) for file, at in zip(takers, calls_of)]
        return files, in_threads(work), None
    call, at = getattr(files[0], plan["call"]), positions(calls)
    began = time.perf_counter()
    for _ in range(plan["repeats"]):
        loop(call, at, argument)
    took = time.perf_counter() - began
    began = time.perf_counter()
    for _ in range(plan["repeats"]):
        loop(operator.is_, at, argument)
    idle = time.perf_counter() - began
    return files, took / plan["repeats"], idle / plan["repeats"]


def check(files, plan):
    """Reads everything back: bytes count from where the block begins that was written."""
    held = plan["before"] or plan["calls"]
    calls = held if plan["call"] == "need" else plan["calls"]
    expected, length = content(held), calls["len"]
    for file in files:
        for at in positions(calls):
            first = at % held["stride"]
            if file.read(at, length) != expected[first : first + length]:
                raise SystemExit("the bytes at %d are not those that were written" % at)


def main():
    try:
        make, memory, version, is_debug = package(sys.argv[1])
    except (ImportError, AttributeError) as error:
        answer(missing=str(error))
        return
    answer(version=version, is_debug=is_debug)
    for line in sys.stdin:
        asked = json.loads(line)
        if "hold" in asked:
            file = make()
            loop(file.write, positions(asked["hold"]), content(asked["hold"]))
            answer(memory_bytes=memory(file))
            continue
        files, took, idle = run(make, asked["plan"])
        if asked["check"]:
            check(files, asked["plan"])
        answer(took_s=took, idle_s=idle)


main()
